#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a correct program with random meshes and sleeps, and looks whether the launcher ever names a wrong process.

    false_alarms.py LOCKSTEP STALL_PROCESS [--programs N] [--every K] [--seed S]

Every K-th of the N programs waits 4 s for one process, which says so: that one must be named, and nobody else.
"""
import argparse
import re
import subprocess
import sys

parser = argparse.ArgumentParser()
parser.add_argument("tool")
parser.add_argument("program")
parser.add_argument("--programs", type=int, default=500)
parser.add_argument("--every", type=int, default=250)
parser.add_argument("--seed", type=int, default=1)
given = parser.parse_args()

job = subprocess.run([given.tool, "run", "-n", "4", "--stall-warning", "1", given.program, "random", str(given.seed),
                      str(given.programs), str(given.every)], text=True, stdout=subprocess.PIPE,
                     stderr=subprocess.STDOUT, timeout=3600)
wrong, words, sleeper = [], 0, None
for line in job.stdout.splitlines():
    if sleeps := re.search(r"process (\d+) sleeps", line):
        sleeper = int(sleeps.group(1))
    if re.match(r"lockstep: (stalled|waiting) for", line):
        words += 1
        blamed = re.search(r"all for process (\d+) \(", line)
        if sleeper is None or not blamed or int(blamed.group(1)) != sleeper:
            wrong.append(line)
    elif line.startswith("lockstep:") and "went on after" not in line:
        wrong.append(line)
for line in wrong:
    print("WRONG:", line)
if job.returncode != 0:
    print(job.stdout)
print(f"{given.programs} programs: {words} words, {len(wrong)} of them wrong; status {job.returncode}")
sys.exit(bool(wrong) or job.returncode != 0 or words == 0)
