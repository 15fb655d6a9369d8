#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the stacks of all processes of a training job again and again, and compares all losses.

    stacks_rounds.py LOCKSTEP TRAIN_DIGITS [--stacks N] [--processes P] [--epochs E] [--most SECONDS] [--within SECONDS]

A run that nobody looks at prints the loss of each step. Then the same run is started as often as it takes, and `lockstep
stacks` is called one time after the other while it runs: each loss must be the same text, and each call must show all
processes. If a run is over before its stacks are taken, the next ones have twice the epochs. Prints how long the calls
took. Exits with 1 where anything differs, or a call takes longer than --most. After --within it stops, with as many as
it has.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time


def start(given, environment):
    return subprocess.Popen([given.tool, "run", "-n", str(given.processes), "--", given.program, "--print-losses", "--epochs",
                             str(given.epochs)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, env=environment)


def results(log):
    """What tells two runs apart."""
    return re.findall(r"loss \S+$|test accuracy \S+", log, re.M)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("program")
    parser.add_argument("--stacks", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--most", type=float)
    parser.add_argument("--within", type=float, default=float("inf"))
    given = parser.parse_args()
    folder = tempfile.TemporaryDirectory()
    environment = {**os.environ, "LOCKSTEP_SOCKET_DIR": os.path.join(folder.name, "sockets")}
    expected = results(start(given, environment).communicate()[0])
    if len(expected) < 10:
        sys.exit("the undisturbed run printed no losses")
    seconds, runs, wrong = [], 0, []
    until = time.monotonic() + given.within
    while len(seconds) < given.stacks and time.monotonic() < until and not wrong:
        job = start(given, environment)
        log = []
        reader = threading.Thread(target=lambda: log.extend(job.stdout))
        reader.start()
        while not any(" loss " in line for line in log) and job.poll() is None:
            time.sleep(0.01)
        before = len(seconds)
        while job.poll() is None and len(seconds) < given.stacks and time.monotonic() < until:
            began = time.monotonic()
            asked = subprocess.run([given.tool, "stacks"], capture_output=True, text=True, env=environment)
            took = time.monotonic() - began
            if len(results("".join(log))) >= len(expected):
                break  # it was about to end
            if asked.returncode != 0 or f"Main threads: {given.processes} processes" not in asked.stdout:
                wrong.append(f"lockstep stacks ended with {asked.returncode}:\n{asked.stdout}{asked.stderr}")
                break
            seconds.append(took)
            if given.most is not None and took > given.most:
                wrong.append(f"lockstep stacks took {took:.2f} s")
                break
        reader.join()
        job.wait()
        runs += 1
        if results("".join(log)) != expected:
            wrong.append("the losses differ:\n" + "".join(log[-20:]))
        if len(seconds) == before and not wrong and time.monotonic() < until:
            given.epochs *= 2
            expected = results(start(given, environment).communicate()[0])
    print("\n".join(wrong), end="\n" if wrong else "")
    if seconds:
        print(f"{len(seconds)} times the stacks of {given.processes} processes, in {runs} runs of {len(expected) - 1} steps: "
              f"{sorted(seconds)[len(seconds) // 2]:.2f} s (median), {max(seconds):.2f} s (longest); "
              f"{'WRONG' if wrong else 'all losses are those of an undisturbed run'}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
