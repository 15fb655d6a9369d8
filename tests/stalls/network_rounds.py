#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stops or slows the network between two of two or three hosts, namespaces of this machine, and checks what the launcher
says.

    network_rounds.py LOCKSTEP STALL_PROCESS [--case NAME ...] [--seed N] [--rounds N] [--warning SECONDS]

The launcher and its coordinator stay in reach of both hosts. If the network stops for ever, the launcher must name the
hosts and no process as the cause, and --stall-timeout must end the job; if it stops for a moment, or is slow, the
launcher must report nothing. Prints a line for each round. Exits with 77 where no hosts can be made.
"""
import argparse
import concurrent.futures
import os
import random
import re
import subprocess
import sys
import tempfile
import time

RECIPE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../recipes/netns-two-hosts.sh")
# The hosts that lose what they send to the other one, of hosts 1 and 2. A third host reaches both.
CUTS = {"both_ways": (1, 2), "from_1": (1,), "from_2": (2,), "from_the_start": (1, 2), "for_a_moment": (1, 2),
        "from_1_for_a_moment": (1,), "of_three_both_ways": (1, 2), "of_three_from_2": (2,),
        "of_three_for_a_moment": (1, 2)}
CASES = [*CUTS, "slow", "of_three_slow"]


def lose(host, lost):
    """Sends what the host sends to the other one to a hardware address that nobody has, or no longer does so."""
    other = f"10.77.0.{3 - host}"
    if lost:
        change = ["replace", other, "lladdr", "02:00:00:00:00:99", "dev", "eth0", "nud", "permanent"]
    else:
        change = ["del", other, "dev", "eth0"]
    subprocess.run([os.environ["ON"], str(host), "ip", "neigh", *change], check=True)


def hosts_of(case):
    return 3 if case.startswith("of_three") else 2


def inside(case, tool, program, warning, seed):
    """Runs one round; beside the hosts, as the recipe starts it."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        rsh = os.path.join(folder, "rsh")
        with open(os.open(rsh, os.O_CREAT | os.O_WRONLY, 0o755), "w") as script:
            script.write('#!/bin/sh\nh=$1; shift\nexec "$ON" ${h##*.} sh -c "$*"\n')
        os.environ["LOCKSTEP_SOCKET_DIR"] = folder
        steps = 50 + int(10 * warning)
        slow = case.endswith("slow")
        what = ["chain", str(int(1e6 * (1.2 * warning + 3))), "1", "0"] if slow else \
            ["sleep", "-1", "-1", "0.1", str(steps)]
        counts = [draw.randint(1, 2) for _ in range(hosts_of(case))]
        if slow:  # five processes, of which the last two, on two hosts, have a long sum
            counts = [4, 1] if hosts_of(case) == 2 else [3, 1, 1]
        options = ["--hosts", ",".join(f"10.77.0.{host}:{count}" for host, count in enumerate(counts, 1)), "--rsh", rsh,
                   "--coordinator-address", "10.77.0.254:5000", "--stall-warning", str(warning), "--stall-timeout",
                   str(int(warning) + 3)]
        if case == "from_the_start":
            for host in CUTS[case]:
                lose(host, True)
        job = subprocess.Popen([tool, "run", *options, "--", program, *what], text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
        cut_at = time.monotonic()
        if case in CUTS and case != "from_the_start":
            time.sleep(4 + draw.random())
            for host in CUTS[case]:
                lose(host, True)
            cut_at = time.monotonic()
            if "moment" in case:
                time.sleep(draw.uniform(1, max(1.5, warning / 2)))
                for host in CUTS[case]:
                    lose(host, False)
        lines, words, word_at = [], [], None
        for line in job.stdout:
            lines.append(line)
            if line.startswith(("lockstep: stalled for", "lockstep: waiting for")):
                words.append(line)
                word_at = word_at or time.monotonic()
        status = job.wait()
    text = "".join(lines)
    wrong = None
    if re.search("wait for each other|different programs|all for process", text):
        wrong = "processes are accused"
    elif slow or "moment" in case:
        if words:
            wrong = "a stall is reported"
        elif status != 0:
            wrong = f"the job ended with {status}"
    elif not words:
        wrong = "no stall is reported"
    elif "no bytes are confirmed between host 10.77.0.1 and host 10.77.0.2 for" not in words[-1]:
        wrong = "the hosts are not named"
    elif status == 0 or "longer than --stall-timeout" not in text:
        wrong = "the stall timeout did not end the job"
    elif word_at - cut_at > warning + (6 if case != "from_the_start" else 16):
        wrong = f"the stall was reported only after {word_at - cut_at:.1f} s"
    after = f"; the stall was reported after {word_at - cut_at:.1f} s" if word_at else ""
    print(f"WRONG: {case}, seed {seed}: {wrong}:\n{text}" if wrong else f"{case}: right{after}", flush=True)
    sys.exit(bool(wrong))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("program")
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--rounds", type=int, default=int(os.environ.get("LOCKSTEP_TEST_NETWORK_ROUNDS", "0")))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--warning", type=float, default=5)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    cases = given.case or CASES
    if given.inside:
        inside(cases[0], given.tool, given.program, given.warning, given.seed)
    if os.geteuid() != 0 or subprocess.run([RECIPE, "true"], capture_output=True).returncode != 0:
        print("skipped: namespaces cannot be made here")
        sys.exit(77)

    def run_round(number):
        case = cases[number % len(cases)]
        shape = ["-n", str(hosts_of(case)), *(["-r", "20mbit"] if case.endswith("slow") else [])]
        own = [sys.executable, os.path.abspath(__file__), "--inside", "--case", case, "--seed", str(given.seed + number),
               "--warning", str(given.warning), os.path.abspath(given.tool), os.path.abspath(given.program)]
        return subprocess.run([RECIPE, *shape, *own], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    rounds = given.rounds or len(cases)
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        results = list(pool.map(run_round, range(rounds)))
    for each in results:
        print(each.stdout, end="")
    right = sum(each.returncode == 0 for each in results)
    print(f"{right} of {rounds} right")
    sys.exit(right != rounds)


if __name__ == "__main__":
    main()
