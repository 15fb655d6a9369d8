#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cuts the power of a disk at random moments while a program saves, and looks what is there afterwards.

    tests/checkpoints/power_loss.py build/release/tests/checkpoints/save_steps [--losses 200] [--seed 1]
        [--without K] [--eatmydata] [--xfs]

The disk is an ext4 (or XFS) in a file, mounted in a mount namespace of its own; EXT4_IOC_SHUTDOWN, which XFS knows as
XFS_IOC_GOINGDOWN, without a flush of the journal is the power loss. Afterwards each step that is there must be whole and have its elements, and no step that was said to
be saved may be missing. With --without K the K-th fsync of each save is left out, and with --eatmydata all are: then
something must go wrong, or the test would find nothing. Needs root; ends with 77 where it may not mount.
"""
import argparse
import fcntl
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time

SHUTDOWN, WITHOUT_FLUSH = 0x8004587D, struct.pack("I", 2)


def mount(image, folder):
    return subprocess.run(["mount", "-o", "loop", image, folder], capture_output=True, text=True)


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def lose_power(arguments, image, folder, seconds):
    """Saves for a while, then takes the disk away. Gives the last step that was said to be saved."""
    environment = {**os.environ, "LOCKSTEP_LOG": "off"}
    if arguments.eatmydata:
        environment["LD_PRELOAD"] = "libeatmydata.so"
    command = [arguments.program, os.path.join(folder, "run")]
    if arguments.without is not None:
        command += ["--without", str(arguments.without)]
    writer = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    saved = [0]
    first = threading.Event()

    def listen():
        for line in writer.stdout:
            saved[0] = int(line.split()[1])
            first.set()

    listener = threading.Thread(target=listen)
    listener.start()
    first.wait(30)
    time.sleep(seconds)
    disk = os.open(folder, os.O_RDONLY)
    said_before = saved[0]
    fcntl.ioctl(disk, SHUTDOWN, WITHOUT_FLUSH)
    os.close(disk)
    writer.kill()
    writer.wait()
    listener.join()
    run("umount", folder)
    # ext4 fails an fsync after the shutdown. XFS's of a folder gives 0, though nothing is written any more.
    return said_before if arguments.xfs else saved[0]


def what_is_wrong(arguments, folder, saved):
    found = subprocess.run([arguments.program, os.path.join(folder, "run"), "--check"], capture_output=True, text=True)
    if found.returncode != 0:
        return found.stderr.strip()
    steps = [int(line.split()[1]) for line in found.stdout.splitlines()]
    if not steps or max(steps) < saved:
        return f"step {saved} was said to be saved, and {steps} are there"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--losses", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without", type=int)
    parser.add_argument("--eatmydata", action="store_true")
    parser.add_argument("--xfs", action="store_true")
    arguments = parser.parse_args()
    make = ["mkfs.xfs", "-q", "-f"] if arguments.xfs else ["mkfs.ext4", "-q", "-F"]
    if os.environ.get("POWER_LOSS_INSIDE") != "1":
        if os.geteuid() != 0 or shutil.which(make[0]) is None:
            print(f"power_loss: skipped: needs root and {make[0]}")
            sys.exit(77)
        os.environ["POWER_LOSS_INSIDE"] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])
    chance = random.Random(arguments.seed)
    wrong = 0
    with tempfile.TemporaryDirectory() as place:
        image, folder = os.path.join(place, "disk"), os.path.join(place, "mounted")
        os.mkdir(folder)
        run("truncate", "-s", "300M" if arguments.xfs else "64M", image)
        run(*make, image)
        for loss in range(arguments.losses):
            mounted = mount(image, folder)
            if mounted.returncode != 0:
                print(f"power_loss: skipped: {mounted.stderr.strip()}")
                sys.exit(77)
            saved = lose_power(arguments, image, folder, chance.uniform(0, 0.25))
            if (again := mount(image, folder)).returncode != 0:
                sys.exit(f"power_loss: {again.stderr.strip()}")
            problem = what_is_wrong(arguments, folder, saved)
            run("umount", folder)
            if problem:
                wrong += 1
                print(f"loss {loss}: {problem}", flush=True)
                run(*make, image)
    print(f"{arguments.losses} power losses, {wrong} wrong")
    control = arguments.without is not None or arguments.eatmydata
    sys.exit(0 if (wrong > 0) == control else 1)


main()
