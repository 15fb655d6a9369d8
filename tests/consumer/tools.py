#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds and runs a program against an installed Lockstep with other compilers, sanitizers and allocators.

    tests/consumer/tools.py PREFIX              prints the table of docs/install.md; what is not installed is left out

The library is the one that is installed; only the program is built with what the table names. Each runs as two processes.
Ends with 1 if one of them fails.
"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORKS, REFUSED = "works", "refused: Lockstep needs"
LIBRARIES = Path("/usr/lib") / f"{os.uname().machine}-linux-gnu"
# g++ 12's thread sanitizer cannot live with all the address randomisation of newer kernels, and does not see how the
# library's threads wait for each other.
WITHOUT_RANDOMISATION = ("setarch", "-R")
# What is tried, the compiler, its flags, what runs the program, variables.
CASES = [
    *((f"{compiler}, C++{standard}", compiler, (f"-std=c++{flag}",), (), {})
      for compiler in ("g++-11", "g++-12", "g++-13", "g++-14", "clang++-14", "clang++-16", "clang++-17", "clang++-18",
                       "clang++-19") for standard, flag in ((20, "20"), (23, "2b"))),
    ("`-O2`", "g++", ("-O2",), (), {}),
    ("`-O2 -flto`", "g++", ("-O2", "-flto"), (), {}),
    ("`-fno-rtti`", "g++", ("-fno-rtti",), (), {}),
    ("`-g -D_GLIBCXX_ASSERTIONS`", "g++", ("-g", "-D_GLIBCXX_ASSERTIONS"), (), {}),
    ("`-fsanitize=address`", "g++", ("-fsanitize=address",), (), {}),
    ("`-fsanitize=leak`", "g++", ("-fsanitize=leak",), (), {}),
    ("`-fsanitize=undefined`", "g++", ("-fsanitize=undefined", "-fno-sanitize-recover"), (), {}),
    ("`-fsanitize=thread`", "g++", ("-fsanitize=thread",), WITHOUT_RANDOMISATION, {"TSAN_OPTIONS": "report_bugs=0"}),
    ("clang++-16 `-fsanitize=address`", "clang++-16", ("-fsanitize=address",), (), {}),
    ("clang++-16 `-fsanitize=undefined`", "clang++-16", ("-fsanitize=undefined", "-fno-sanitize-recover"), (), {}),
    ("valgrind, with the suppressions", "g++", ("-g",),
     ("valgrind", "--error-exitcode=1", "--quiet", "--suppressions={prefix}/share/lockstep/valgrind.supp"), {}),
    *((f"{name}, linked statically", "g++", (str(LIBRARIES / archive),), (), {})
      for name, archive in (("jemalloc", "libjemalloc.a"), ("tcmalloc", "libtcmalloc_minimal.a"))),
    *((f"{name}, preloaded", "g++", (), ("env", f"LD_PRELOAD={LIBRARIES / library}"), {})
      for name, library in (("jemalloc", "libjemalloc.so.2"), ("tcmalloc", "libtcmalloc_minimal.so.4"),
                            ("mimalloc", "libmimalloc.so.2"))),
]


def missing(compiler, flags, runner):
    files = [*(flag for flag in flags if flag.startswith("/")), *(word.partition("=")[2] for word in runner if "=/" in word)]
    programs = [compiler, *runner[:1]]
    return any(shutil.which(name) is None for name in programs) or any(not Path(file).exists() for file in files)


def first_line(text):
    lines = [line.strip() for line in text.splitlines() if "rror" in line] or text.strip().splitlines() or ["nothing is said"]
    return lines[0][:160].replace("|", "\\|")


def result(prefix, folder, compiler, flags, runner, variables):
    environment = {**os.environ, **variables, "PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}
    linked = subprocess.run(["pkg-config", "--cflags", "--libs", "lockstep"], check=True, capture_output=True, text=True,
                            env=environment).stdout.split()
    program = folder / "program"
    runner = [word.format(prefix=prefix) for word in runner]
    plain = [flag for flag in flags if not flag.startswith("/")]
    if not any(flag.startswith("-std") for flag in plain):
        plain.append("-std=c++20")
    built = subprocess.run([compiler, *plain, HERE / "main.cc", "-o", program, *linked,
                            *(flag for flag in flags if flag.startswith("/"))],
                           capture_output=True, text=True, check=False)
    if "Lockstep needs" in built.stderr:
        return REFUSED + built.stderr.partition("Lockstep needs")[2].splitlines()[0].rstrip('"')
    if built.returncode != 0:
        return f"does not compile: {first_line(built.stderr)}"
    run = subprocess.run([prefix / "bin" / "lockstep", "run", "-n", "2", "--", *runner, program], capture_output=True,
                         text=True, check=False, env=environment)
    wanted = {f"[{process}] sum 2" for process in (0, 1)}
    return WORKS if run.returncode == 0 and wanted <= set(run.stdout.splitlines()) else \
        f"status {run.returncode}: {first_line(run.stdout + run.stderr)}"


def main():
    prefix = Path(sys.argv[1]).resolve()
    failed = False
    print("| program built or run with | result |\n| --- | --- |", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for what, compiler, flags, runner, variables in CASES:
            if not missing(compiler, flags, runner):
                said = result(prefix, Path(folder), compiler, flags, runner, variables)
                failed = failed or (said != WORKS and not said.startswith(REFUSED))
                print(f"| {what} | {said} |", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
