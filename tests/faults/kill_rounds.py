#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills a process of a job at a random moment, many times, and looks what the launcher says and what is left.

    tests/faults/kill_rounds.py build/release/lockstep build/release/examples/train_digits [--rounds 100] [--seed 1]

In each round `lockstep run -n 4` starts the program, and one of its processes gets SIGKILL after a random time of up to
the length of a whole run. The launcher must name that process and no other as the first cause, in its first and in its
last line of the failure, end with 137, and leave no process behind. Rounds that end before the kill do not count.
"""
import argparse
import os
import random
import re
import signal
import subprocess
import sys
import time

from processes import processes_with

PROCESSES = 4


def processes_of(mark):
    """The processes of the job, by their index; the launcher, which has the mark too, is none of them."""
    return {int(variables["LOCKSTEP_PROCESS_ID"]): pid
            for pid, variables in processes_with("KILL_ROUNDS", mark).items() if "LOCKSTEP_PROCESS_ID" in variables}


def start(arguments, mark):
    return subprocess.Popen([arguments.launcher, "run", "-n", str(PROCESSES), "--", arguments.program],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env={**os.environ, "KILL_ROUNDS": mark})


def wrong(job, output, index, pid, mark):
    """What is wrong with the end of the job, or None."""
    if job.returncode != 128 + signal.SIGKILL:
        return f"the launcher ended with {job.returncode}"
    said = [line for line in output.splitlines() if line.startswith("lockstep: ")]
    causes = [line for line in said if re.search(r"process \d+ \(host", line)]  # a stall names a process as (pid N)
    name = rf"process {index} \(host [^ ]+, pid {pid}\)"
    if not causes or not re.search(name, causes[0]) or not re.search(name, said[-1]):
        return "the launcher does not name it first and last"
    if left := processes_of(mark):
        return f"left behind: {left}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("launcher")
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    began = time.monotonic()
    job = start(arguments, "whole run")
    job.communicate(timeout=300)
    if job.returncode != 0:
        sys.exit(f"kill_rounds: {arguments.program} itself ends with {job.returncode}")
    length, killed, failed = time.monotonic() - began, 0, 0
    for attempt in range(arguments.rounds * 4):
        if killed == arguments.rounds:
            break
        mark = f"{os.getpid()}-{attempt}"
        job = start(arguments, mark)
        time.sleep(chance.uniform(0, length))
        index, alive = chance.randrange(PROCESSES), processes_of(mark)
        if index in alive:
            try:
                os.kill(alive[index], signal.SIGKILL)
            except ProcessLookupError:
                pass
        output, _ = job.communicate(timeout=120)
        if index not in alive or job.returncode == 0:
            continue
        killed += 1
        if what := wrong(job, output, index, alive[index], mark):
            failed += 1
            print(f"attempt {attempt}: process {index}, pid {alive[index]}, was killed: {what}\n{output}", flush=True)
    print(f"{killed} kills, {failed} not as they should be", flush=True)
    sys.exit(failed > 0 or killed < arguments.rounds)


if __name__ == "__main__":
    main()
