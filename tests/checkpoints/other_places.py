#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training job that loses a host, is stopped, and goes on with half of the processes, which are killed too.

    tests/checkpoints/other_places.py build/release/lockstep build/release/examples/train_transformer

The losses of the two starts by two processes, on two hosts of three, must be the same text as those of a run that nobody
disturbed. One process adds in another order, so its losses are compared as numbers: each must be far nearer to the loss of
its step than losses of neighbouring steps are to each other. The hosts are pretended: a script takes the place of ssh.
"""
import os
import signal
import sys
import tempfile
import types

from resume_rounds import Run, processes_of

STEPS, PROCESSES = 300, 2


def fail(what, *runs):
    for run in runs:
        print("".join(run.log[-30:]))
    sys.exit(f"other_places: {what}")


def main():
    arguments = types.SimpleNamespace(launcher=sys.argv[1], program=sys.argv[2], steps=STEPS)
    with tempfile.TemporaryDirectory() as place:
        plain = Run(arguments, os.path.join(place, "plain"), processes=PROCESSES)
        if plain.wait() != 0:
            fail("the undisturbed run failed", plain)

        # Two processes; host b is lost, and the restart goes to c. Then it is told to stop.
        rsh = os.path.join(place, "rsh")
        with open(rsh, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nhost=$1; shift\necho $$ > {place}/pid-$host; exec sh -c "$*"\n')
        os.chmod(rsh, 0o755)
        folder = os.path.join(place, "moved")
        hosts = ["--hosts", "a:1,b:1,c:1", "--rsh", rsh, "--coordinator-address", "127.0.0.1"]
        moved = Run(arguments, folder, [*hosts, "--max-restarts", "1"], PROCESSES, every=10)
        moved.wait_for_lines(25)
        with open(os.path.join(place, "pid-b"), encoding="utf-8") as file:
            os.kill(int(file.read()), signal.SIGKILL)
        while moved.restored == 0 and moved.job.poll() is None:
            moved.wait_for_lines(1)
        moved.wait_for_lines(20)
        moved.job.terminate()
        moved.wait()
        if not any("the processes go to a:1,c:1" in line for line in moved.log) or moved.restored != 1:
            fail("the processes did not move to another host", moved)
        told = [int(line.split("step ")[1].split()[0]) for line in moved.log if "told to stop: " in line]
        wrong = [step for step, losses in moved.losses.items() if losses != plain.losses[step]]
        if len(told) != 1 or told[0] != max(moved.losses) or wrong:
            fail(f"told to stop it said {told} at step {max(moved.losses)}; steps with another loss: {wrong[:10]}", moved)

        # One process goes on behind that step, and is killed.
        fewer = Run(arguments, folder, ["--max-restarts", "1", "--restart-delay", "0"], processes=1, every=10)
        fewer.wait_for_lines(15)
        os.kill(processes_of(fewer.mark)[0], signal.SIGKILL)
        if fewer.wait() != 0 or fewer.restored != 2 or min(fewer.losses) != told[0] + 1 or max(fewer.losses) != STEPS:
            fail(f"one process was to go on after step {told[0]}, to the end", fewer)
        by_step = {step: float(next(iter(losses))) for step, losses in plain.losses.items()}
        worst = max(abs(float(loss) - by_step[step]) for step, losses in fewer.losses.items() for loss in losses)
        apart = sorted(abs(by_step[step] - by_step[step - 1]) for step in fewer.losses)[len(fewer.losses) // 2]
        print(f"host b lost, stopped at step {told[0]}, then one process and a kill: losses differ by at most {worst:.2g}, "
              f"those of neighbouring steps by {apart:.2g}")
        if worst > apart / 20:
            fail("one process does not train on the batches of two", fewer)


main()
