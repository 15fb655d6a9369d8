#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the partitioned programs give the same on one device, on 8 in one process, and on 8 in 4 processes of 2.

    benchmarks/communication/check_devices.py [--build FOLDER] [--only NAME ...]

Of each program's results it compares the mean of the elements' sizes, and of the elements times others that tell their
places. It ends with status 1 where they are not the same. Whole models are left out with --quick, unless
LOCKSTEP_LONG_TESTS is set.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# Sums of thousands of products in another order.
MOST_APART = 1e-4

# Two thirds of the time.
WHOLE_MODELS = {"transformer step, data x fsdp x tensor", "12 layers, fsdp", "12 layers, fsdp, of which 8 MiB are kept",
                "layers, fsdp x tensor, scan and remat", "Llama, fsdp of all parameters", "BERT, fsdp of all parameters",
                "ResNet, fsdp of all parameters"}


def values(command, timeout):
    """What each program's results are, by its name."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with status {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    # A line of a launched process has its number in front.
    lines = [json.loads(line[line.index("{"):]) for line in done.stdout.splitlines() if '{"name"' in line]
    if failed := [f"{line['name']}: {line['error']}" for line in lines if "error" in line]:
        sys.exit(f"{' '.join(command)}: " + "\n".join(failed))
    return {line["name"]: line["values"] for line in lines}


def apart(one, many):
    """How far two results' values are from each other, at most, in parts of the mean size of their elements."""
    if len(one) != len(many):
        return float("inf")
    off = [abs(a - b) / (abs(expected[0]) + 1e-30) for expected, found in zip(one, many) for a, b in zip(expected, found)]
    return max(off) if all(each == each for each in off) else float("inf")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this program; may be given again")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--timeout", type=float, default=500, help="seconds for one way of running them")
    options = parser.parse_args()
    programs = [str(options.build / "benchmarks" / "communication_programs"), "--check"]
    only = options.only
    if options.quick and "LOCKSTEP_LONG_TESTS" not in os.environ:
        names = subprocess.run([programs[0], "--list"], capture_output=True, text=True, timeout=60, check=True).stdout
        only = [name for name in names.splitlines() if name not in WHOLE_MODELS]
    for name in only:
        programs += ["--only", name]
    ways = {"one device": [*programs, "--devices", "1"], "8 devices of a process": programs,
            "2 devices of each of 4 processes": [str(options.build / "lockstep"), "run", "-n", "4", "--", *programs,
                                                 "--devices", "2"]}
    found = {way: values(command, options.timeout) for way, command in ways.items()}
    expected = found.pop("one device")
    if not expected:
        sys.exit("no program was run")
    different = 0
    for way, programs in found.items():
        for name in sorted(expected.keys() | programs.keys()):
            off = apart(expected.get(name, []), programs[name]) if name in programs else float("inf")
            different += not off < MOST_APART
            print(f"{'same     ' if off < MOST_APART else 'DIFFERENT'}  {name}, {way}: at most {off:.1e} apart")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
