#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills processes of a training job at random moments, which goes on from its checkpoints, and compares all losses.

    tests/checkpoints/resume_rounds.py build/release/lockstep build/release/examples/train_transformer [--kills 50]

A run of 4 processes that nobody disturbs prints the loss of each step. Then the same run is started with --max-restarts,
and one of its processes gets SIGKILL now and then, until so many kills were made. Each loss that it prints, and what it
prints at its end, must be the same text as that of the undisturbed run.
"""
import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

PROCESSES = 4
EVERY = 31  # steps from one save to the next
MODEL = ["--layers", "1", "--width", "32", "--heads", "2", "--context", "32", "--sample", "20", "--print-losses"]


def processes_of(mark):
    """The processes of the job, without the launcher."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                variables = file.read().split(b"\0")
        except OSError:
            continue
        if mark in variables and any(entry.startswith(b"LOCKSTEP_PROCESS_ID=") for entry in variables):
            found.append(int(pid))
    return found


class Run:
    """A training job that saves to the folder, and what it has printed so far; `extra` is for `lockstep run`."""

    def __init__(self, arguments, folder, extra=(), processes=PROCESSES, every=EVERY):
        self.mark = f"RESUME_ROUNDS={os.getpid()}-{folder}".encode()
        name, value = self.mark.decode().split("=", 1)
        command = [arguments.launcher, "run", "-n", str(processes), *extra, "--", arguments.program, *MODEL,
                   "--steps", str(arguments.steps), "--checkpoint-dir", folder, "--checkpoint-every", str(every)]
        self.job = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    text=True, env={**os.environ, name: value})
        self.losses, self.lines, self.end, self.log, self.saved, self.restored = {}, 0, None, [], 0, 0
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.job.stdout:
            self.log.append(line)
            if found := re.search(r"loss (\S+) step (\d+)", line):
                self.losses.setdefault(int(found[2]), set()).add(found[1])
                self.lines += 1
            elif "held-out" in line:
                self.end = line
            elif "[checkpoint] saved " in line:
                self.saved += 1
            elif "continuing after step" in line:
                self.restored += 1

    def wait_for_lines(self, count):
        """Until so many more losses are printed, or the run has ended."""
        last = self.lines + count
        while self.lines < last and self.job.poll() is None:
            time.sleep(0.002)

    def wait(self):
        self.reader.join()
        return self.job.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("launcher")
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    arguments.steps = 50 + 150 * arguments.kills
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as place:
        plain = Run(arguments, os.path.join(place, "plain"))
        if plain.wait() != 0:
            sys.exit("resume_rounds: the undisturbed run failed\n" + "".join(plain.log[-20:]))
        killed = Run(arguments, os.path.join(place, "killed"),
                     ["--max-restarts", str(2 * arguments.kills), "--restart-delay", "0"])
        kills = 0
        while kills < arguments.kills and killed.job.poll() is None:
            # One kill of four comes at any moment, starts included, three while it trains; the last one behind a save.
            if kills == arguments.kills - 1 and not killed.restored:
                while not killed.saved and killed.job.poll() is None:
                    killed.wait_for_lines(EVERY)
            elif chance.random() < 0.25:
                time.sleep(chance.uniform(0.1, 2))
            else:
                killed.wait_for_lines(chance.randrange(1, 200))
                time.sleep(chance.uniform(0, 0.01))
            if processes := processes_of(killed.mark):
                os.kill(chance.choice(processes), signal.SIGKILL)
                kills += 1
        status = killed.wait()

        # Told to stop, it saves once more, and another start goes on behind that step.
        folder = os.path.join(place, "stopped")
        stopped = Run(arguments, folder)
        stopped.wait_for_lines(50)
        stopped.job.terminate()
        stopped.wait()
        told = [line for line in stopped.log if "told to stop" in line]
        rest = Run(arguments, folder)
        rest_status = rest.wait()
    wrong = [step for step, losses in killed.losses.items() if losses != plain.losses[step]]
    print(f"{kills} kills, {killed.restored} restores, {len(killed.losses)} of {arguments.steps} steps seen, "
          f"{len(wrong)} with another loss")
    seen = {**stopped.losses, **rest.losses}
    if not told or rest_status != 0 or rest.restored != 1 or rest.end != plain.end or seen != plain.losses or \
            set(stopped.losses) & set(rest.losses):
        print("".join(stopped.log[-10:] + rest.log[-10:]))
        sys.exit(f"resume_rounds: told to stop, it said {told}; then status {rest_status}, {rest.restored} restores, "
                 f"{len(seen)} steps")
    if status != 0 or wrong or kills < arguments.kills or killed.end != plain.end or not killed.restored:
        print("".join(killed.log[-40:]))
        sys.exit(f"resume_rounds: status {status}, steps with another loss: {wrong[:10]}")


if __name__ == "__main__":
    main()
