#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures training steps, operations and generation in Lockstep and PyTorch on this machine's CPUs, alternately.

    benchmarks/compare_torch/compare.py [--quick] [--only llama resnet operations generate] [--on "1 core" ...]

README.md beside this file says what is measured. The times are medians over rounds of each run's median.
"""
import argparse
import os
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
from comparing import free_port, human, print_table, python_with, try_run, warn_if_busy  # noqa: E402

PINNED = ["torch==2.11.0", "transformers==5.24.0", "numpy==2.4.6"]
PLACES = ("1 core", "2 threads", "2 processes")
SIDES = ("Lockstep", "torch eager", "torch.compile")
STEPS = {"llama": "a training step of the Llama", "resnet": "a training step of the ResNet"}


def commands_of(side, what, place, count, options):
    """What `run` takes."""
    core = ["taskset", "-c", str(max(os.sched_getaffinity(0)))] if place == "1 core" else []
    processes = 2 if place == "2 processes" else 1
    threads = 2 if place == "2 threads" else 1
    if side == "Lockstep":
        build = options.build.resolve()
        program = build / "benchmarks" / "compare_torch"
        for path in (build / "lockstep", program):
            if not path.exists():
                sys.exit(f"not built: {path}; run cmake --build --preset release --target lockstep_tool compare_torch")
        launcher = [str(build / "lockstep"), "run", "-n", "2", "--"] if processes == 2 else core
        return [([*launcher, str(program), "--what", what, "--count", str(count)], {"NPROC": str(threads)})]
    options.python = options.python or python_with(PINNED, ROOT / "build" / "compare_torch" / "venv")
    command = [*core, options.python, str(HERE / "torch_side.py"), "--what", what, "--count", str(count), "--threads",
               str(threads), "--mode", "compile" if side == "torch.compile" else "eager"]
    if processes == 1:
        return [(command, {})]
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    return [(command, {**meeting, "RANK": str(rank)}) for rank in range(2)]


class Samples:
    """The measurements of all rounds, and what failed."""

    def __init__(self, options):
        self.options, self.of, self.failures = options, {}, []

    def take(self, side, what, place, count):
        found = try_run(f"{what}, {place}, {side}", commands_of(side, what, place, count, self.options),
                        self.options.timeout, self.failures)
        for each in found or []:
            self.of.setdefault((side, place, each["measure"]), []).append(each)

    def median(self, side, place, measure, field):
        found = [each[field] for each in self.of.get((side, place, measure), [])]
        return statistics.median(found) if found else None


def ratio(theirs, ours):
    """How many times as fast Lockstep is."""
    return "-" if theirs is None or ours is None else f"{theirs / ours:.2f}"


def compare_steps(what, options):
    samples = Samples(options)
    sides = [side for side in SIDES if side != "torch.compile" or not options.quick]
    for _ in range(options.rounds):
        for place in options.on:
            for side in sides:
                if side != "torch.compile" or place == "1 core":
                    samples.take(side, what, place, 4 if options.quick else 10)
    times, others = [], []
    for place in options.on:
        medians = {side: samples.median(side, place, what, "median_us") for side in SIDES}
        times.append([place, *map(human, medians.values()), ratio(medians["torch eager"], medians["Lockstep"]),
                      ratio(medians["torch.compile"], medians["Lockstep"])])
        for side in sides:
            first, peak = (samples.median(side, place, *which) for which in ((what, "first_s"), ("memory", "peak_bytes")))
            if first is not None:
                others.append([f"{place}, {side}", f"{first:.2f} s", f"{peak / 2**20:.0f} MiB"])
    print_table([STEPS[what], *SIDES, "of eager's speed", "of compile's speed"], times)
    print()
    print_table(["its first step, and the memory of a process", "first step", "peak memory"], others)
    print()
    return samples.failures


def compare_operations(what, options):
    samples = Samples(options)
    for _ in range(options.rounds):
        for side in SIDES[:2]:
            samples.take(side, what, "1 core", 3 if options.quick else (20 if what == "operations" else 5))
    rows = []
    for side, place, name in samples.of:
        if side == "Lockstep" and name != "memory":
            ours, theirs = (samples.median(each, place, name, "median_us") for each in SIDES[:2])
            rows.append([name, human(ours), human(theirs), ratio(theirs, ours)])
    print_table(["one core", *SIDES[:2], "of torch's speed"], rows)
    print()
    return samples.failures


def main():
    kinds = (*STEPS, "operations", "generate")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer calls, one round, without torch.compile")
    parser.add_argument("--only", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--on", nargs="+", choices=PLACES, default=PLACES, help="where training steps run")
    parser.add_argument("--rounds", type=int, help="how often each side runs each program (3; with --quick 1)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--python", help="an interpreter with torch and transformers, instead of build/compare_torch/venv")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one run of one program")
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 3)
    warn_if_busy()
    failures = []
    for what in options.only:
        failures += (compare_steps if what in STEPS else compare_operations)(what, options)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
