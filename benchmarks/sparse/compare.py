#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures a step of conjugate gradients with a sparse matrix in Lockstep, JAX and plain C++ on this machine, alternately.

    benchmarks/sparse/compare.py [--quick] [--sizes N,N] [--processes 1,4] [--only SIDE ...]

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
from comparing import human, jax_commands, jax_python, print_table, try_run, warn_if_busy  # noqa: E402

SIDES = ("Lockstep, RowBlocks", "Lockstep, BCSR", "JAX, BCSR", "C++")


def commands_of(side, options, processes, arguments):
    """None where the side does not do this."""
    if side == "C++" or side == "Lockstep, BCSR":
        if processes > 1:
            return None
    if side == "C++":
        program = ROOT / "build" / "sparse" / "plain_sparse"
        if not program.exists() or program.stat().st_mtime < max(f.stat().st_mtime for f in HERE.glob("*")):
            program.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["g++", "-std=c++20", "-O3", "-march=native", f"-I{ROOT}", "-o", str(program),
                            str(HERE / "plain_sparse.cc")], check=True)
        return [([str(program), *arguments], {})]
    if side == "JAX, BCSR":
        options.python = options.python or jax_python()
        return jax_commands([options.python, str(HERE / "jax_sparse.py"), *arguments], processes)
    build = options.build.resolve()
    for path in (build / "lockstep", build / "benchmarks" / "sparse"):
        if not path.exists():
            sys.exit(f"not built: {path}; run cmake --build --preset release --target lockstep_tool sparse")
    return [([str(build / "lockstep"), "run", "-n", str(processes), "--", str(build / "benchmarks" / "sparse"),
              "--form", side.split(", ")[1], *arguments], {})]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer calls, one round")
    parser.add_argument("--sizes", default="256,1024")
    parser.add_argument("--processes", default="1,4")
    parser.add_argument("--only", nargs="+", choices=SIDES, default=SIDES, help="columns to measure")
    parser.add_argument("--rounds", type=int, help="how often each side runs each program (3; with --quick 1)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--python", help="an interpreter with JAX, instead of build/compare_jax/venv")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one run of one program")
    options = parser.parse_args()

    warn_if_busy()
    body, failures = [], []
    for size in map(int, options.sizes.split(",")):
        for processes in map(int, options.processes.split(",")):
            steps = max(10, (20 if options.quick else 50) * 1024 * 1024 // (size * size) // 4)
            arguments = ["--size", str(size), "--steps", str(steps), "--windows", "3" if options.quick else "8"]
            name = f"{size} x {size}, {processes} process{'es' if processes > 1 else ''}"
            samples, sums = {}, {}
            for _ in range(options.rounds or (1 if options.quick else 3)):
                for side in options.only:
                    commands = commands_of(side, options, processes, arguments)
                    if commands is None:
                        continue
                    found = try_run(f"{name}, {side}", commands, options.timeout, failures)
                    if found is None:
                        continue
                    samples.setdefault(side, []).append(found[0]["median_us"])
                    sums[side] = found[0]["sum"]
            if sums and max(sums.values()) - min(sums.values()) > 1e-9 * abs(max(sums.values())):
                failures.append(f"{name}: the sums of the results differ: {sums}")
                print(f"FAILED {failures[-1]}", file=sys.stderr)
            body.append([name, *(human(statistics.median(samples[side]) if side in samples else None)
                                 for side in options.only)])
    print_table(["a step of conjugate gradients", *options.only], body)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
