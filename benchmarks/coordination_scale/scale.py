#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The time that many clients need with a coordinator, and its memory: Lockstep's against JAX's own, in turn.

scale.py --tool build/release/lockstep --load build/release/benchmarks/coordination_load [--sizes 64,512,4096]
    [--proxied build/release/benchmarks/coordination_proxied]

With --proxied also Lockstep's with clients behind proxies, --per-host of them behind each.

A fresh coordinator for each run, as a process of its own, whose largest resident memory is read at the end. See
load.cc and proxied.cc for what the clients do and what about them is simulated.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent.parent / "tests" / "jax"))
import jax_python  # noqa: E402

SERVICE_OF_JAX = HERE.parent.parent / "tests" / "jax" / "jax_service.py"
STEPS = ["register", "heartbeat", "topology", "barrier", "leave", "total"]


def peak_mib(process):
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the kernel tells no VmHWM")


def cpu_seconds(process):
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(command, load):
    """Seconds of each step, the coordinator's time on a core, its peak memory in MiB, and that before the clients
    came."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().split()[-1]
        before, cpu_before = peak_mib(process), cpu_seconds(process)
        # It must still be there when its memory is read: it stays until its clients have gone, or its input ends.
        loading = subprocess.Popen([load[0], address, *load[1:]], stdout=subprocess.PIPE, text=True)
        peak, cpu = before, cpu_before
        while loading.poll() is None:
            try:
                peak, cpu = max(peak, peak_mib(process)), cpu_seconds(process)
            except (RuntimeError, FileNotFoundError):
                pass
            try:
                loading.wait(timeout=0.02)
            except subprocess.TimeoutExpired:
                pass
        output = loading.stdout.read()
        if loading.returncode != 0:
            raise RuntimeError(f"{load[0]} failed with {command[0]}")
        return {**json.loads(output), "cpu": cpu - cpu_before, "peak": peak, "before": before}
    finally:
        process.kill()
        process.wait()


def main():
    os.environ["LOCKSTEP_JOB_SECRET"] = "of the benchmark"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--load", required=True)
    parser.add_argument("--sizes", default="64,512,4096")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--without-jax", action="store_true")
    parser.add_argument("--proxied")
    parser.add_argument("--per-host", type=int, default=64)
    parser.add_argument("--only-proxied", action="store_true")
    options = parser.parse_args()

    def coordinator(n):
        return [options.tool, "coordinator", "--num-processes", str(n)]

    def direct(n):
        return [options.load, str(n), str(options.connections)]

    commands = {}
    if not options.only_proxied:
        commands["lockstep"] = coordinator, direct
    if options.proxied:
        commands["proxied"] = coordinator, lambda n: [options.proxied, str(n), str(options.per_host)]
    if not options.without_jax and not options.only_proxied:
        python = jax_python.jax_python()
        commands["jax"] = lambda n: [python, str(SERVICE_OF_JAX), str(n)], direct
    print(f"medians of {options.runs} runs in turn, {options.connections} connections; seconds, MiB")
    print(f"{'clients':>8} {'service':>9} " + " ".join(f"{step:>9}" for step in STEPS) +
          f" {'its CPU s':>9} {'peak MiB':>9} {'of these before':>16}")
    for clients in (int(size) for size in options.sizes.split(",")):
        results = {name: [] for name in commands}
        for _ in range(options.runs):
            for name, (command, load) in commands.items():
                results[name].append(measure(command(clients), load(clients)))
        for name, runs in results.items():
            middle = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
            print(f"{clients:>8} {name:>9} " + " ".join(f"{middle[step]:>9.3f}" for step in STEPS) +
                  f" {middle['cpu']:>9.2f} {middle['peak']:>9.0f} {middle['before']:>16.0f}", flush=True)


if __name__ == "__main__":
    main()
