#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the compiler takes for a program that includes <lockstep/lockstep.h>: seconds of a processor and memory, at -O2.

    benchmarks/compile_times.py build/release                all examples
    benchmarks/compile_times.py build/release hello_devices  some of them
    benchmarks/compile_times.py build/release --pch          with the header precompiled, as Lockstep::pch does it
    benchmarks/compile_times.py build/release --headers      programs that only include a header

--most-mib fails where one needs more memory. Time is only shown: it depends on the machine.
"""

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def examples(build):
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = Path(entry["file"])
        if source.is_relative_to(ROOT / "examples") and source.parent.name != "support":
            yield source, entry


def flags_of(entry):
    """Those of the build, but for the level of optimization and what it keeps of its own: caches, precompiled headers."""
    words = shlex.split(entry["command"])
    while words and not words[0].endswith(("c++", "g++", "clang++")):
        words.pop(0)
    compiler, rest, kept = words[0], words[1:], []
    while rest:
        word = rest.pop(0)
        if word in ("-o", "-c", "-MF", "-MT", "-include"):
            rest.pop(0)
        elif not word.startswith(("-O", "-MD", "-Winvalid-pch", "--param", "ggc-")):
            kept.append(word)
    return compiler, kept + ["-O2"]


def measure(command):
    """Seconds of a processor and MiB of one run."""
    script = ("import resource,subprocess,sys;code=subprocess.run(sys.argv[1:]).returncode;"
              "u=resource.getrusage(resource.RUSAGE_CHILDREN);print(u.ru_utime+u.ru_stime,u.ru_maxrss/1024);sys.exit(code)")
    done = subprocess.run([sys.executable, "-c", script, *command], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"compile_times: failed: {shlex.join(command)}")
    seconds, mib = done.stdout.split()
    return float(seconds), float(mib)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--pch", action="store_true")
    parser.add_argument("--headers", action="store_true")
    parser.add_argument("--most-mib", type=float)
    given = parser.parse_args()

    found = [(source, entry) for source, entry in sorted(examples(given.build)) if not given.names or source.stem in given.names]
    missing = set(given.names) - {source.stem for source, _ in found}
    if missing or not found:
        sys.exit(f"compile_times: no such example in {given.build}: {', '.join(sorted(missing)) or 'any'}")

    print(f"{'header' if given.headers else 'example':32} {'seconds':>8} {'MiB':>6}")
    too_much = []
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        before = []
        if given.pch:
            compiler, flags = flags_of(found[0][1])
            header = scratch / "pch.h"
            header.write_text("#include <lockstep/lockstep.h>\n")
            seconds, mib = measure([compiler, *flags, "-x", "c++-header", str(header), "-o", f"{header}.gch"])
            print(f"{'(the header, once)':32} {seconds:8.2f} {mib:6.0f}")
            before = ["-include", str(header)]
        if given.headers:
            entry = found[0][1]
            found = [(scratch / f"{header}.cc", entry) for header in ("array", "jit", "train", "lockstep")]
            for source, _ in found:
                source.write_text(f"#include <lockstep/{source.stem}.h>\nint main() {{ lockstep::initialize(); }}\n")
        for source, entry in found:
            compiler, flags = flags_of(entry)
            seconds, mib = measure([compiler, *flags, *before, "-c", str(source), "-o", str(scratch / "out.o")])
            print(f"{source.stem:32} {seconds:8.2f} {mib:6.0f}", flush=True)
            if given.most_mib and mib > given.most_mib:
                too_much.append(source.stem)
    if too_much:
        sys.exit(f"compile_times: more than {given.most_mib:.0f} MiB: {', '.join(too_much)}")


if __name__ == "__main__":
    main()
