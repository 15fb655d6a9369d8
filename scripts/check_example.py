#!/usr/bin/env python3
"""Runs an example as its first comment says, and holds its output to what stands there.

    check_example.py SOURCE TOOL PROGRAM

The comment has a line `$ lockstep run OPTIONS -- build/release/examples/NAME ARGUMENTS` and the output below it. Lines
of different processes may come in any order.
"""
import subprocess
import sys
from pathlib import Path


def main():
    source, tool, program = sys.argv[1:]
    comment = []
    for line in Path(source).read_text().splitlines():
        if not line.startswith("//"):
            break
        comment.append(line[2:].strip())
    starts = [i for i, line in enumerate(comment) if line.startswith("$ lockstep ")]
    if len(starts) != 1:
        sys.exit(f"{source}: its first comment has no one line '$ lockstep run ...'")
    command, expected = comment[starts[0]].split()[1:], [line for line in comment[starts[0] + 1:] if line]
    stated = f"build/release/examples/{Path(source).stem}"
    if stated not in command or not expected:
        sys.exit(f"{source}: its first comment does not run {stated}, or does not say what that prints")
    command = [tool] + [program if word == stated else word for word in command[1:]]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    if result.returncode != 0 or sorted(result.stdout.splitlines()) != sorted(expected):
        print(f"{' '.join(command)}: status {result.returncode}\n{result.stderr}{result.stdout}expected\n" +
              "\n".join(expected), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
