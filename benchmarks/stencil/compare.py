#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures a step of the heat equation, and of other operations on a grid, in Lockstep, JAX and plain C++ on this machine,
alternately.

    benchmarks/stencil/compare.py [--quick] [--sizes N,N] [--bits 32,64] [--processes 1,2,4] [--only SIDE ...]
                                  [--steps heat,gradient,descent,cumsum,argmax]

README.md beside this file says what is measured. The times are medians over rounds of each run's median.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
from comparing import Mpi, human, jax_commands, jax_python, print_table, run, warn_if_busy  # noqa: E402

FORMS = ("automatic", "shard_map", "interior")
STEPS = ("heat", "gradient", "descent", "cumsum", "argmax")  # all but the first in the columns Lockstep and JAX
WAIT_FOR_JAXS_CUMSUM = 30  # seconds; over several processes it may wait forever
OPTIMIZED = ("-O3", "-march=native")


class Lockstep:
    def __init__(self, build):
        self.build = build
        for path in (build / "lockstep", build / "benchmarks" / "stencil"):
            if not path.exists():
                sys.exit(f"not built: {path}; run cmake --build --preset release --target lockstep_tool stencil")

    def commands(self, form, processes, arguments):
        return [([str(self.build / "lockstep"), "run", "-n", str(processes), "--",
                  str(self.build / "benchmarks" / "stencil"), "--form", form, *arguments], {})]


class Jax:
    def __init__(self, python):
        self.python = python

    def commands(self, form, processes, arguments):
        return jax_commands([self.python, str(HERE / "jax_stencil.py"), "--form", form, *arguments], processes)


class Plain:
    """One process, whatever the number."""
    is_parallel = False

    def __init__(self, folder):
        self.program = str(folder / "plain_stencil")
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["g++", "-std=c++20", *OPTIMIZED, f"-I{ROOT}", "-o", self.program, str(HERE / "plain_stencil.cc")],
                       check=True)

    def commands(self, form, processes, arguments):
        return [([self.program, *arguments], {})]


class PlainMpi:
    is_parallel = True

    def __init__(self, mpi, folder):
        self.mpi = mpi
        self.program = mpi.compile(HERE / "plain_stencil.cc", folder, *OPTIMIZED, "-DSTENCIL_MPI")

    def commands(self, form, processes, arguments):
        return [(self.mpi.command(processes, [self.program, *arguments]), {})]


def print_rows(rows, columns):
    head = ["a step", *columns]
    ratios = [("Lockstep / C++", "Lockstep", "C++"), ("Lockstep, shard_map / MPI", "Lockstep, shard_map", "MPI C++"),
              ("JAX / Lockstep", "JAX", "Lockstep"), ("the same, shard_map", "JAX, shard_map", "Lockstep, shard_map"),
              ("the same, interior", "JAX, interior", "Lockstep, interior")]
    ratios = [(name, a, b) for name, a, b in ratios if a in columns and b in columns]
    head += [name for name, _, _ in ratios]
    body = []
    for (step, grid, processes), row in rows.items():
        quotients = [f"{row[a] / row[b]:.2f}x" if row.get(a) and row.get(b) else "-" for _, a, b in ratios]
        body.append([name_of_row(step, grid, processes), *(human(row.get(column)) for column in columns), *quotients])
    print_table(head, body)


def name_of_row(step, grid, processes):
    return f"{step}, {grid}, {processes} process{'es' if processes > 1 else ''}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer calls, one round")
    parser.add_argument("--sizes", default="1024,2048")
    parser.add_argument("--bits", default="32,64")
    parser.add_argument("--processes", default="1,2,4")
    parser.add_argument("--steps", default=",".join(STEPS))
    parser.add_argument("--only", nargs="+", help="columns to measure, such as 'Lockstep' 'C++'")
    parser.add_argument("--rounds", type=int, help="how often each side runs each program (3; with --quick 1)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--python", help="an interpreter with JAX, instead of build/compare_jax/venv")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one run of one program")
    options = parser.parse_args()

    warn_if_busy()
    wanted = lambda name: options.only is None or name in options.only
    sides = {}
    name_of = lambda side, form: side if form == "automatic" else f"{side}, {form}"
    for side, make in (("Lockstep", lambda: Lockstep(options.build.resolve())),
                       ("JAX", lambda: Jax(options.python or jax_python()))):
        forms = [form for form in FORMS if wanted(name_of(side, form))]
        made = make() if forms else None
        sides.update({name_of(side, form): (made, form) for form in forms})
    folder = ROOT / "build" / "stencil"
    if wanted("C++"):
        sides["C++"] = (Plain(folder), None)
    if wanted("MPI C++"):
        there = Mpi.there()
        if there:
            sides["MPI C++"] = (PlainMpi(there[0], folder), None)

    rows, failures, notes = {}, [], []
    cells = [(step, int(size), bits, int(processes)) for step in options.steps.split(",") for size in options.sizes.split(",")
             for bits in options.bits.split(",") for processes in options.processes.split(",")]
    for step, size, bits, processes in cells:
        steps = max(10, (50 if options.quick else 200) * 1024 * 1024 // (size * size))
        arguments = ["--size", str(size), "--bits", bits, "--steps", str(steps), "--windows", "3" if options.quick else "8"]
        grid = f"{size} x {size}, f{bits}"
        name = name_of_row(step, grid, processes)
        samples, sums = {}, {}
        for round_ in range(options.rounds or (1 if options.quick else 3)):
            for column, (side, form) in sides.items():
                is_plain = isinstance(side, (Plain, PlainMpi))
                if is_plain and (processes > 1) != side.is_parallel or step != "heat" and form != "automatic":
                    continue
                timeout, may_hang = options.timeout, step == "cumsum" and processes > 1 and isinstance(side, Jax)
                if may_hang:
                    timeout = min(timeout, WAIT_FOR_JAXS_CUMSUM)
                print(f"{name}, round {round_ + 1}, {column}", file=sys.stderr)
                try:
                    _, found = run(side.commands(form if step == "heat" else step, processes, arguments), timeout)
                except RuntimeError as error:
                    if may_hang and "did not end within" in str(error):
                        notes.append(f"{name}: {column} did not end within {timeout} s")
                        continue
                    failures.append(f"{name}, {column}: {error}")
                    print(f"FAILED {failures[-1]}", file=sys.stderr)
                    continue
                samples.setdefault(column, []).append(found[0]["median_us"])
                sums.setdefault(form == "interior", {})[column] = found[0]["sum"]
        rows[step, grid, processes] = {column: statistics.median(values) for column, values in samples.items()}
        for totals in sums.values():
            low, high = min(totals.values()), max(totals.values())
            if high - low > (1e-9 if bits == "64" else 1e-4) * abs(high):
                failures.append(f"{name}: the sums of the cells' squares differ: {totals}")
                print(f"FAILED {failures[-1]}", file=sys.stderr)
    # The C++ of one process stands beside each number of processes.
    for (step, grid, _), row in rows.items():
        alone = rows.get((step, grid, 1))
        if alone and "C++" in alone:
            row.setdefault("C++", alone["C++"])
    print_rows(rows, list(sides))
    for note in dict.fromkeys(notes):
        print(note)
    return 1 if failures or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
