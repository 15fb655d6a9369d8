#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures Lockstep against JAX with gloo on this machine, alternately, and prints medians and ratios.

    benchmarks/compare_jax/compare.py [--quick] [--only psum|collectives|train|start|jit|eager|scan|linalg|products|transformer]
                                      [--jax-only | --lockstep-only | --recorder | --against BUILD] [--mpi]

README.md beside this file says what is measured and how the two sides' programs are called.
"""
import argparse
import json
import os
import pathlib
import platform
import signal
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
from comparing import PINNED, Mpi, jax_commands, jax_python, run, warn_if_busy  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20


class Jax:
    name = "jax"
    cache_variable = "JAX_COMPILATION_CACHE_DIR"
    keeps_all = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}

    def __init__(self, python):
        self.python = python

    def run(self, program, processes, arguments, timeout, environment={}):
        command = [self.python, str(HERE / f"jax_{program}.py"), *arguments]
        return run(jax_commands(command, processes, environment), timeout)


class Lockstep:
    cache_variable = "LOCKSTEP_COMPILATION_CACHE_DIR"
    keeps_all = {}

    def __init__(self, build, name="lockstep"):
        self.build, self.name = build, name
        programs = ("collectives", "train", "jit", "eager", "scan", "linalg", "products", "transformer")
        needed = [build / "lockstep", *(build / "benchmarks" / f"compare_{program}" for program in programs)]
        missing = [str(path) for path in needed if not path.exists()]
        if missing:
            sys.exit("not built: " + ", ".join(missing) + "; run ./test or build the preset, or give --jax-only")

    def run(self, program, processes, arguments, timeout, environment={}):
        command = [str(self.build / "benchmarks" / f"compare_{program}"), *arguments]
        if program in ("collectives", "train", "transformer"):
            command = [str(self.build / "lockstep"), "run", "-n", str(processes), "--", *command]
        return run([(command, environment)], timeout)


class WithoutRecorder(Lockstep):
    def __init__(self, build):
        super().__init__(build, "no recorder")

    def run(self, program, processes, arguments, timeout, environment={}):
        return super().run(program, processes, arguments, timeout, {**environment, "LOCKSTEP_RECORDER": "0"})


class MpiCollectives:
    """An MPI, which takes part in the collectives only."""

    def __init__(self, mpi):
        self.name, self.mpi = mpi.name, mpi
        self.program = None

    def run(self, program, processes, arguments, timeout):
        if self.program is None:
            self.program = self.mpi.compile(HERE / "mpi_collectives.cc", ROOT / "build" / "compare_jax", "-O2")
        return run([(self.mpi.command(processes, [self.program, *arguments]), {})], timeout)


KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "permute")


def measure_of_kinds(side, processes, sizes, kinds, timeout):
    _, found = side.run("collectives", processes, ["--kinds", ",".join(kinds), "--sizes",
                                                   ",".join(f"{b}:{c}" for b, c in sizes.items())], timeout)
    return {f"{m['kind']} {label(m['bytes'])}, {processes} processes": m["median_us"] for m in found}


def measure_psum(side, processes, quick, timeout):
    sizes = {4: 2000, 4 * KIB: 1000, 4 * MIB: 100, 64 * MIB: 12}
    if quick:
        sizes = {4: 300, 4 * KIB: 200, 4 * MIB: 20, 64 * MIB: 4}
    return measure_of_kinds(side, processes, sizes, KINDS[:1], timeout)


def measure_collectives(side, processes, quick, timeout):
    sizes = {64 * KIB: 400, 1 * MIB: 100, 16 * MIB: 12}
    if quick:
        sizes = {64 * KIB: 100, 1 * MIB: 30, 16 * MIB: 4}
    return measure_of_kinds(side, processes, sizes, KINDS, timeout)


def label(count):
    return f"{count // MIB} MiB" if count >= MIB else f"{count // KIB} KiB" if count >= KIB else f"{count} B"


def measure_train(side, processes, quick, timeout):
    started, found = side.run("train", processes, train_options("3" if quick else "12"), timeout)
    of = lambda measure: [m for m in found if m["measure"] == measure]
    if len(of("first_step")) != processes or len(of("memory")) != processes or len(of("train")) != 1:
        raise RuntimeError(f"{side.name}: the training program of {processes} processes printed {found}")
    plural = "process" if processes == 1 else "processes"
    return {f"train step, {processes} {plural}": of("train")[0]["median_us"],
            f"start to first step, {processes} {plural}": (max(m["unix_time"] for m in of("first_step")) - started) * 1e6,
            f"peak memory of a process, {processes} {plural}": max(m["peak_bytes"] for m in of("memory"))}


def train_options(windows, window="10", split_state="0"):
    return ["--windows", windows, "--window", window, "--split-state", split_state]


def measure_split_state(side, processes, quick, timeout):
    """The step with each process's share of adam's moments."""
    _, found = side.run("train", processes, train_options("3" if quick else "12", split_state="1"), timeout)
    [step] = [m for m in found if m["measure"] == "train"]
    return {f"train step, adam's state split, {processes} processes": step["median_us"]}


def measure_jit(side, processes, quick, timeout):
    _, found = side.run("jit", 1, ["--windows", "10" if quick else "50", "--window", "1000"], timeout)
    return {"cached jit call, f32[8] + 1": found[0]["median_us"]}


def measure_eager(side, processes, quick, timeout):
    _, found = side.run("eager", 1, ["--windows", "20" if quick else "100", "--window", "200"], timeout)
    return {f"eager {m['operation']}": m["median_us"] for m in found if m["measure"] == "eager"}


def measure_linalg(side, processes, quick, timeout):
    _, found = side.run("linalg", 1, ["--windows", "5" if quick else "20", "--size", "512"], timeout)
    what = {"one": "f32[512,512]", "many": "f32[256,16,16]"}
    return {f"{m['operation']} of {what[m['of']]}": m["median_us"] for m in found if m["measure"] == "linalg"}


def measure_products(side, processes, quick, timeout):
    _, found = side.run("products", 1, ["--windows", "5" if quick else "20"], timeout)
    return {f"x^T y, {m['dtype']}[{m['sizes']}]": m["median_us"] for m in found if m["measure"] == "products"}


def measure_scan(side, processes, quick, timeout):
    _, found = side.run("scan", 1, ["--windows", "10" if quick else "40", "--window", "5", "--steps", "1000"], timeout)
    return {f"scan of 1,000 steps, {m['direction']}": m["median_us"] for m in found if m["measure"] == "scan"}


def measure_warm(side, processes, quick, timeout):
    """Start to first step once more, with compiled programs on disk; what is there before is made by a start of its own."""
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            started, found = side.run("train", processes, train_options("1", "1"), timeout,
                                      {**side.keeps_all, side.cache_variable: folder})
    first = [m["unix_time"] for m in found if m["measure"] == "first_step"]
    plural = "process" if processes == 1 else "processes"
    return {f"start to first step, {processes} {plural}, compiled before": (max(first) - started) * 1e6}


def measure_transformer(side, processes, quick, timeout):
    _, found = side.run("transformer", processes, ["--windows", "3" if quick else "8", "--window", "5"], timeout)
    of = {m["measure"]: m for m in found}
    plural = "process" if processes == 1 else "processes"
    return {f"transformer's step: trace and lower, {processes} {plural}": of["prepare"]["trace_us"],
            f"transformer's step: and compile, {processes} {plural}": of["prepare"]["prepare_us"],
            f"transformer's step, {processes} {plural}": of["train"]["median_us"]}


def plugin_launch(build):
    """The plugin's own launch of the program that the jit measurement calls, in microseconds, or None."""
    program = build / "benchmarks" / "pjrt_launch"
    if not program.exists():
        return None
    output = subprocess.run([str(program), "--benchmark_filter=^Launch/arrays:1/async:0$", "--benchmark_format=json"],
                            capture_output=True, text=True, timeout=120, check=True).stdout
    return json.loads(output)["benchmarks"][0]["real_time"] / 1e3


def human(name, value):
    if value is None:
        return "-"
    if "memory" in name:
        return f"{value / MIB:.0f} MiB"
    if value >= 1e6:
        return f"{value / 1e6:.2f} s"
    return f"{value / 1e3:.3g} ms" if value >= 1e3 else f"{value:.3g} us"


def print_table(rows, sides):
    """A ratio is how many times longer another side takes than Lockstep."""
    others = [side.name for side in sides if side.name != "lockstep"] if len(sides) > 1 else []
    width = max(len(name) for name in rows)
    print(f"{'':{width}}  " + "".join(f"{side.name:>12}" for side in sides) + "".join(f"{'/ ' + name:>12}" for name in others))
    digits = 3 if isinstance(sides[0], Lockstep) else 2
    for name, row in rows.items():
        line = f"{name:{width}}  " + "".join(f"{human(name, row.get(side.name)):>12}" for side in sides)
        for other in others:
            ratio = row.get("ratio", {}).get(other)
            line += f"{ratio:>11.{digits}f}x" if ratio is not None else f"{'-':>12}"
        print(line.rstrip(" -"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer calls, one round")
    parser.add_argument("--only", choices=["psum", "collectives", "train", "start", "jit", "eager", "scan", "linalg", "products", "transformer"],
                        help="start is measured with train, and with compiled programs on disk")
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--jax-only", action="store_true", help="leave Lockstep out")
    one.add_argument("--lockstep-only", action="store_true", help="leave JAX out")
    one.add_argument("--recorder", action="store_true", help="against Lockstep that records nothing, in JAX's place")
    one.add_argument("--against", type=pathlib.Path, metavar="BUILD",
                     help="against the Lockstep of another build folder, in JAX's place")
    parser.add_argument("--mpi", action="store_true",
                        help="the collectives against Open MPI and MPICH too, where they are installed")
    parser.add_argument("--rounds", type=int, help="how often each side runs each program (3; with --quick 1)")
    parser.add_argument("--processes", help="instead of 2,4 for psum, 1,2,4 for training and 1,2 for the transformer")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--python", help="an interpreter with JAX, instead of build/compare_jax/venv")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one run of one program")
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "build" / "compare_jax" / "result.json")
    options = parser.parse_args()

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that run() ends what it started
    load = warn_if_busy()
    sides = []
    if options.recorder:
        sides.append(WithoutRecorder(options.build.resolve()))
    elif options.against:
        sides.append(Lockstep(options.against.resolve(), "the other"))
    elif not options.lockstep_only:
        sides.append(Jax(options.python or jax_python()))
    if not options.jax_only:
        sides.append(Lockstep(options.build.resolve()))

    if options.mpi:
        sides += [MpiCollectives(mpi) for mpi in Mpi.there()]

    counts = [int(n) for n in options.processes.split(",")] if options.processes else None
    plan = []
    if options.only in (None, "jit"):
        plan.append((measure_jit, 1))
    if options.only in (None, "eager"):
        plan.append((measure_eager, 1))
    if options.only in (None, "scan"):
        plan.append((measure_scan, 1))
    if options.only in (None, "linalg"):
        plan.append((measure_linalg, 1))
    if options.only in (None, "products"):
        plan.append((measure_products, 1))
    if options.only in (None, "psum"):
        plan += [(measure_psum, n) for n in counts or (2, 4)]
    if options.only in (None, "collectives"):
        plan += [(measure_collectives, n) for n in counts or (2, 4)]
    if options.only in (None, "train", "start"):
        plan += [(measure_train, n) for n in counts or (1, 2, 4)]
    if options.only in (None, "train"):
        plan += [(measure_split_state, n) for n in counts or (2, 4) if n > 1]
    if options.only in (None, "start"):
        plan += [(measure_warm, n) for n in counts or (1, 2, 4)]

    if options.only in (None, "transformer"):
        plan += [(measure_transformer, n) for n in counts or (1, 2)]

    samples, failures = {}, []
    for measure, processes in plan:
        for round_ in range(options.rounds or (1 if options.quick else 3)):
            for side in sides:
                if isinstance(side, MpiCollectives) and measure not in (measure_psum, measure_collectives):
                    continue
                what = f"{measure.__name__.removeprefix('measure_')}, {processes} process(es), round {round_ + 1}, {side.name}"
                print(what, file=sys.stderr)
                try:
                    for name, value in measure(side, processes, options.quick, options.timeout).items():
                        if options.only == "start" and not name.startswith("start"):
                            continue
                        samples.setdefault(name, {}).setdefault(side.name, []).append(value)
                except RuntimeError as error:
                    failures.append(f"{what}: {error}")
                    print(f"FAILED {failures[-1]}", file=sys.stderr)

    rows = {}
    for name, by_side in samples.items():
        rows[name] = {side: statistics.median(values) for side, values in by_side.items()}
        if len(rows[name]) > 1 and "lockstep" in rows[name]:
            rows[name]["ratio"] = {side: value / rows[name]["lockstep"] for side, value in rows[name].items()
                                   if side != "lockstep"}
    if options.only in (None, "jit") and not options.jax_only and (launch := plugin_launch(options.build)) is not None:
        rows["the plugin's own launch of it"] = {"lockstep": launch}
    if rows:
        print_table(rows, sides)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(
        {"machine": {"cores": os.cpu_count(), "processor": platform.machine(), "load_at_start": load, "system": platform.platform()},
         "jax": PINNED[0], "units": "microseconds, bytes for memory; ratio = the other side / lockstep", "rows": rows,
         "samples": samples, "failures": failures}, indent=2) + "\n")
    print(f"written: {options.json}", file=sys.stderr)
    return 1 if failures or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
