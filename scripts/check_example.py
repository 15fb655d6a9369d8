#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs an example as its first comment says, and holds its output to what stands there.

    check_example.py SOURCE TOOL PROGRAM

The comment has a line `$ lockstep run OPTIONS -- build/release/examples/NAME ARGUMENTS` and the output below it. Lines
of different processes may come in any order. A line that begins with `lockstep:` is the launcher's, on standard error:
`...` in it stands for any text, an indented line continues it, and other lines there are not looked at.
"""
import re
import subprocess
import sys
from pathlib import Path


def main():
    source, tool, program = sys.argv[1:]
    comment = []
    for line in Path(source).read_text().splitlines():
        if not line.startswith("//"):
            break
        continues = line.startswith("//     ") and comment and comment[-1].startswith("lockstep:")
        comment += [f"{comment.pop()} {line[2:].strip()}" if continues else line[2:].strip()]
    starts = [i for i, line in enumerate(comment) if line.startswith("$ lockstep ")]
    if len(starts) != 1:
        sys.exit(f"{source}: its first comment has no one line '$ lockstep run ...'")
    command, expected = comment[starts[0]].split()[1:], [line for line in comment[starts[0] + 1:] if line]
    inside = Path(source).resolve().parts
    inside = inside[len(inside) - inside[::-1].index("examples"):]
    stated = "build/release/examples/" + "/".join(inside).removesuffix(".cc")
    if stated not in command or not expected:
        sys.exit(f"{source}: its first comment does not run {stated}, or does not say what that prints")
    command = [tool] + [program if word == stated else word for word in command[1:]]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    launcher = [line for line in expected if line.startswith("lockstep:")]
    said = all(any(re.fullmatch(".*".join(map(re.escape, line.split("..."))), found)
                   for found in result.stderr.splitlines()) for line in launcher)
    printed = [line for line in expected if line not in launcher]
    if result.returncode != 0 or not said or sorted(result.stdout.splitlines()) != sorted(printed):
        print(f"{' '.join(command)}: status {result.returncode}\n{result.stderr}{result.stdout}expected\n" +
              "\n".join(expected), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
