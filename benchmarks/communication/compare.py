#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what partitioned programs communicate and keep in memory in JAX and in Lockstep, over 8 CPU devices.

    benchmarks/communication/compare.py [--only NAME ...] [--explain NAME | --check]

Both sides compile the same programs; a table says for each program the bytes that a device receives,
the collectives, and a device's peak memory. README.md beside this file says how they are counted.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
from comparing import jax_python, print_table  # noqa: E402

SIDES = ("jax", "lockstep")


def run(command, timeout, environment={}):
    """The lines of JSON that the command prints, by the programs' names."""
    try:
        done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired as error:
        sys.exit(f"{command[0]} did not end within {timeout} s; it had printed\n{(error.stdout or b'').decode()[-2000:]}")
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with status {done.returncode}\n{done.stderr[-3000:]}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"name"')]
    return {line["name"]: line for line in lines}


def received(collective):
    """The bytes that a device receives in one collective, by the ring algorithms. `bytes` are those of the larger of
    what a device gives and what it gets: the whole of an all-gather's result, of a reduce-scatter's operand."""
    n, size = collective["group"], collective["bytes"]
    return {"all-reduce": 2 * size * (n - 1) / n, "all-gather": size * (n - 1) / n, "reduce-scatter": size * (n - 1) / n,
            "all-to-all": size * (n - 1) / n, "permute": size, "broadcast": size}[collective["kind"]]


def summary(line):
    """Bytes received, collectives and peak memory of a program, each collective as often as it runs."""
    if line is None or "error" in line:
        return {"error": "missing" if line is None else line["error"]}
    times = [1 if c["times"] is None else c["times"] for c in line["collectives"]]
    return {"bytes": sum(received(c) * t for c, t in zip(line["collectives"], times)), "collectives": sum(times),
            "memory": line["arguments"] + line["results"] + line["temporary"] - line["aliased"],
            "counted": all(c["times"] is not None for c in line["collectives"])}


def ratio(row, what):
    """Lockstep's over JAX's; of nothing on both sides 1. None where a side has none."""
    theirs, ours = (row[side].get(what) for side in SIDES)
    if theirs is None or ours is None:
        return None
    return ours / theirs if theirs else (1.0 if not ours else float("inf"))


def missed(row, what):
    value = ratio(row, what)
    return value is not None and round(value, 2) > 1


def human(value):
    if value is None:
        return "failed"
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= size:
            return f"{value / size:.3g} {unit}" if value < 999.5 * size else f"{value / size:.0f} {unit}"
    return f"{value:.0f} B"


def cells(name, row):
    def both(what, form):
        return [form(row[side].get(what)) for side in SIDES]

    def times(what):
        value = ratio(row, what)
        return "-" if value is None else f"{value:.2f}x"

    def count(value):
        return "failed" if value is None else str(value)
    unknown = any(not row[side].get("counted", True) for side in SIDES)
    return [f"{name} (a loop's steps are unknown)" if unknown else name, *both("bytes", human), times("bytes"),
            *both("collectives", count), *both("memory", human), times("memory")]


HEAD = ["program", "bytes, JAX", "Lockstep", "ratio", "collectives, JAX", "Lockstep", "memory, JAX", "Lockstep", "ratio"]


def print_verdict(rows):
    for what, words in (("bytes", "more bytes"), ("collectives", "more collectives"), ("memory", "more memory")):
        names = [name for name, row in rows.items() if missed(row, what)]
        print(f"{words} than JAX: {len(names)} of {len(rows)}" + "".join(f"\n  {name}" for name in names))
    for name, row in rows.items():
        for side in SIDES:
            if "error" in row[side]:
                print(f"{name}: {side} failed: {row[side]['error']}")


def arrays(type):
    """An HLO type without layouts; of arrays that are alike, one and their number."""
    found = re.findall(r"[a-z]+\d*\[[\d,]*\]", type)
    alike = {array: found.count(array) for array in found}
    return ", ".join(array if count == 1 else f"{count} of {array}" for array, count in alike.items())


def print_collectives(line):
    """Those of one side: what each is, how often it runs, what a device receives, and what it belongs to."""
    for c in line["collectives"]:
        times = "" if c["times"] == 1 else ", each time" if c["times"] is None else f", {c['times']} times"
        print(f"  {c['kind']} of {human(c['bytes'])} over {c['group']} devices{times}; {human(received(c))} received")
        if "type" in c:
            print(f"    {arrays(c['type'])} {c['operation']}")


def explain(name, lines):
    for side in SIDES:
        line = lines[side].get(name)
        print(f"{side}:")
        if line is None or "error" in line:
            print("  " + ("missing" if line is None else line["error"]))
            continue
        print_collectives(line)
        print(f"  {human(line['arguments'])} of arguments, {human(line['results'])} of results, "
              f"{human(line['temporary'])} temporary")
    if "explanation" in lines["lockstep"].get(name, {}):
        print("\nLockstep's lower().explain():\n" + lines["lockstep"][name]["explanation"])


def check(lines):
    """Tells of each program whether both sides' results are the same; the number of those that are not."""
    different = 0
    for name, line in lines["jax"].items():
        ours = lines["lockstep"].get(name, {"error": "missing"})
        if error := line.get("error") or ours.get("error"):
            same, words = False, error
        else:
            # In order of size: trees' leaves are in other orders.
            theirs, ours = (sorted(side["values"]) for side in (line, ours))
            off = [abs(a - b) / (abs(t[0]) + 1e-30) for t, o in zip(theirs, ours) for a, b in zip(t, o)]
            same = len(theirs) == len(ours) and all(each < 1e-3 for each in off)  # a NaN is not
            words = f"{len(theirs)} and {len(ours)} results, at most {max(off):.1e} apart"
        different += not same
        print(f"{'same     ' if same else 'DIFFERENT'}  {name}: {words}")
    return different


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this program; may be given again")
    parser.add_argument("--explain", metavar="NAME", help="both sides' collectives of a program, and Lockstep's reasons")
    parser.add_argument("--check", action="store_true", help="run the programs, too, and compare both sides' results")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--python", help="an interpreter with JAX, instead of build/compare_jax/venv")
    parser.add_argument("--timeout", type=float, default=500, help="seconds for one side's programs")
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "build" / "communication" / "result.json",
                        help="where both sides' collectives and the table are written")
    options = parser.parse_args()

    ours = options.build.resolve() / "benchmarks" / "communication_programs"
    if not ours.exists():
        sys.exit(f"not built: {ours}; build the preset, target communication_programs")
    names = subprocess.run([str(ours), "--list"], capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
    only = [options.explain] if options.explain else options.only
    if unknown := set(only) - set(names):
        sys.exit(f"there is no program {unknown.pop()!r}; these are: {'; '.join(names)}")
    chosen = [word for name in only for word in ("--only", name)] + (["--check"] if options.check else [])
    python = options.python or jax_python()
    eight = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    lines = {"jax": run([python, str(HERE / "jax_programs.py"), *chosen], options.timeout, eight),
             "lockstep": run([str(ours), *chosen, *(["--explain"] if options.explain else [])], options.timeout)}
    if options.explain:
        explain(options.explain, lines)
        return 0
    if options.check:
        return 1 if check(lines) else 0

    order = [name for name in dict.fromkeys([*names, *lines["jax"]]) if name in lines["jax"] or name in lines["lockstep"]]
    rows = {name: {side: summary(lines[side].get(name)) for side in SIDES} for name in order}
    print_table(HEAD, [cells(name, row) for name, row in rows.items()])  # as README.md's
    print()
    print_verdict(rows)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"units": "bytes of a device; collectives as often as they run", "rows": rows,
                                        "programs": lines}, indent=1) + "\n")
    print(f"written: {options.json}", file=sys.stderr)
    return 1 if any("error" in row[side] for row in rows.values() for side in SIDES) else 0


if __name__ == "__main__":
    sys.exit(main())
