#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""psum between two hosts, which are network namespaces of this machine: Lockstep against JAX over gloo, alternately.

    benchmarks/two_hosts/two_hosts.py [--quick] [--rounds N] [--processes 1,2] [--networks tcp,ucx]     (as root)
    benchmarks/two_hosts/two_hosts.py --overlap 500mbit,1gbit,2gbit [--rounds N]
    benchmarks/two_hosts/two_hosts.py --encryption [--rounds N]

Prints for each size the median time of a call on process 0, the median of the rounds, and JAX's divided by that of
Lockstep's first network (tcp, tcp:4 with 4 connections, tls: tcp with LOCKSTEP_DATA_TLS, ucx). Where iperf3 is
installed, also what it reaches both ways at a time, and the share of it that a large psum of two processes reaches: each
sends and receives what it sums, once.
The programs are those of benchmarks/compare_jax, the hosts those of tests/recipes/netns-two-hosts.sh.

--overlap: a training step whose gradients are summed over the hosts (training_step.cc), at these rates of the network:
the sums beside the backward pass, each in its place, and without any.

--encryption: the bytes that each of two processes sends, and receives, in a second of psums of three sizes, in plain text
and encrypted, alternately; without JAX.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "compare_jax")]
import compare  # noqa: E402
import comparing  # noqa: E402

KIB, MIB = compare.KIB, compare.MIB


def on_hosts(per_host, variables_of, program):
    """Command lines that run one process each on its host; `variables_of` gives those of process i."""
    for index in range(2 * per_host):
        settings = [f"{name}={value}" for name, value in variables_of(index).items()]
        yield [os.environ["ON"], str(index // per_host + 1), "env", *settings, *program], {}


def variables_of_lockstep(count, index, port):
    return {"LOCKSTEP_NUM_PROCESSES": count, "LOCKSTEP_PROCESS_ID": index,
            "LOCKSTEP_COORDINATOR_ADDRESS": f"10.77.0.1:{port}", "LOCKSTEP_JOB_SECRET": "of-this-benchmark"}


def commands(side, per_host, port, build, python, arguments):
    count = 2 * per_host
    if side == "jax":
        program = [python, str(HERE.parent / "compare_jax" / "jax_collectives.py")]
        variables_of = lambda index: {"COMPARE_PROCESSES": count, "COMPARE_PROCESS": index,
                                      "COMPARE_COORDINATOR": f"10.77.0.1:{port}", "JAX_PLATFORMS": "cpu"}
    else:
        program = [str(build / "benchmarks" / "compare_collectives")]
        network, _, connections = side.partition(":")
        variables_of = lambda index: {"LOCKSTEP_NETWORK": "tcp" if network == "tls" else network,
                                      "LOCKSTEP_DATA_TLS": int(network == "tls"),
                                      "LOCKSTEP_DATA_CONNECTIONS": connections or 1,
                                      **variables_of_lockstep(count, index, port)}
    return on_hosts(per_host, variables_of, [*program, *arguments])


def name_hosts():
    """Lets the hosts know each other's names, by which gloo finds its own address."""
    names = tempfile.NamedTemporaryFile("w", suffix=".hosts")
    names.write("127.0.0.1 localhost\n10.77.0.1 host1\n10.77.0.2 host2\n")
    names.flush()
    for host in "12":
        subprocess.run([os.environ["ON"], host, "mount", "--bind", names.name, "/etc/hosts"], check=True)
    return names


def iperf():
    """Bytes per second in each direction, both at a time; None where it is not installed."""
    if shutil.which("iperf3") is None:
        return None
    server = subprocess.Popen([os.environ["ON"], "2", "iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
    try:
        for _ in range(50):
            done = subprocess.run([os.environ["ON"], "1", "iperf3", "-c", "10.77.0.2", "--bidir", "-t", "4", "-J"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
            if done.returncode == 0:
                end = json.loads(done.stdout)["end"]
                return min(end[name]["bits_per_second"] for name in ("sum_received", "sum_received_bidir_reverse")) / 8
            time.sleep(0.1)
    finally:
        server.kill()
    return None


def measure(options):
    names = name_hosts()
    sizes = {4: 1000, 4 * KIB: 500, 256 * KIB: 200, 4 * MIB: 40, 64 * MIB: 8}
    if options.quick:
        sizes = {size: max(3, calls // 5) for size, calls in sizes.items()}
    arguments = ["--kinds", "all-reduce", "--sizes", ",".join(f"{size}:{calls}" for size, calls in sizes.items())]
    samples, port, wire = {}, 5000, []
    for per_host in options.processes:
        for round_ in range(options.rounds):
            wire.append(iperf())
            for side in (*options.networks, "jax"):
                port += 1
                print(f"{per_host} a host, round {round_ + 1}, {side}", file=sys.stderr)
                started = list(commands(side, per_host, port, options.build, options.python, arguments))
                for found in comparing.run(started, options.timeout)[1]:
                    if found["measure"] == "collective":
                        key = f"psum {compare.label(found['bytes'])}, 2 hosts x {per_host}"
                        samples.setdefault(key, {}).setdefault(side, []).append(found["median_us"])
    names.close()
    sides = ("jax", *options.networks)
    print(f"{'':28}" + "".join(f"{side:>12}" for side in sides) + f"{'ratio':>10}")
    for key, found in samples.items():
        row = [statistics.median(found[side]) for side in sides]
        print(f"{key:28}" + "".join(f"{compare.human('', value):>12}" for value in row) + f"{row[0] / row[1]:>9.1f}x")
    reached = [each for each in wire if each is not None]
    if reached:
        rate = statistics.median(reached)
        print(f"iperf3 --bidir: {rate / 1e9:.2f} GB/s each way")
        for size in (4 * MIB, 64 * MIB):
            found = samples.get(f"psum {compare.label(size)}, 2 hosts x 1")
            for side in options.networks if found else ():
                print(f"psum {compare.label(size)}, {side}: "
                      f"{size / statistics.median(found[side]) * 1e6 / rate:.0%} of it")
    print(json.dumps(samples), file=sys.stderr)


def measure_encryption(options):
    sizes = {64 * KIB: 2000, MIB: 300, 64 * MIB: 10}
    arguments = ["--kinds", "all-reduce", "--sizes", ",".join(f"{size}:{calls}" for size, calls in sizes.items())]
    samples = {}
    for round_ in range(options.rounds):
        for number, side in enumerate(("tcp", "tls")):
            started = list(commands(side, 1, 5200 + 2 * round_ + number, options.build, None, arguments))
            for found in comparing.run(started, options.timeout)[1]:
                if found["measure"] == "collective":
                    samples.setdefault((found["bytes"], side), []).append(found["median_us"])
    print(f"{'':10}{'plain':>14}{'encrypted':>14}{'ratio':>8}")
    for size in sizes:
        plain, encrypted = (statistics.median(samples[size, side]) for side in ("tcp", "tls"))
        print(f"{compare.label(size):>10}{size / plain / 1000:>9.2f} GB/s{size / encrypted / 1000:>9.2f} GB/s"
              f"{plain / encrypted:>8.2f}")


def measure_overlap(options, rate):
    """One line of the table: the medians of the rounds."""
    found = {}
    for round_ in range(options.rounds):
        started = on_hosts(1, lambda index: variables_of_lockstep(2, index, 5100 + round_),
                           [str(options.build / "benchmarks" / "training_step")])
        for each in comparing.run(list(started), options.timeout)[1]:
            found.setdefault(each["measure"], []).append(each["median_us"] / 1000)
    row = {name: statistics.median(values) for name, values in found.items()}
    print(f"{rate:>10}" + "".join(f"{row[name]:>12.1f} ms" for name in ("beside", "in place", "alone")) +
          f"{row['in place'] / row['beside']:>9.2f}x")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a fifth of the calls")
    parser.add_argument("--rounds", type=int, default=3, help="how often each side runs")
    parser.add_argument("--processes", default="1,2", type=lambda text: [int(n) for n in text.split(",")],
                        help="on each host")
    parser.add_argument("--networks", default="tcp,ucx", type=lambda text: text.split(","))
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--python", help="an interpreter with JAX, instead of build/compare_jax/venv")
    parser.add_argument("--overlap", help="rates of the network, such as 1gbit,2gbit",
                        type=lambda text: text.split(","))
    parser.add_argument("--encryption", action="store_true", help="plain text against TLS")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one run")
    options = parser.parse_args()
    options.build = options.build.resolve()
    recipe = ROOT / "tests" / "recipes" / "netns-two-hosts.sh"
    if options.overlap:
        if "ON" in os.environ:
            measure_overlap(options, options.overlap[0])
            return
        print(f"{'network':>10}{'beside':>15}{'in place':>15}{'no sums':>15}{'ratio':>10}", flush=True)
        rest = sys.argv[1:]
        for rate in options.overlap:
            subprocess.run([recipe, "-r", rate, sys.executable, __file__, *rest, "--overlap", rate], check=True)
        return
    if options.encryption and "ON" in os.environ:
        measure_encryption(options)
        return
    if options.encryption:
        sys.exit(subprocess.run([recipe, sys.executable, __file__, *sys.argv[1:]]).returncode)
    options.python = options.python or comparing.jax_python()
    if "ON" in os.environ:
        measure(options)
        return
    sys.exit(subprocess.run([recipe, sys.executable, __file__, *sys.argv[1:]]).returncode)


if __name__ == "__main__":
    main()
