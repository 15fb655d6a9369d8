# SPDX-License-Identifier: Apache-2.0
"""Writes golden.json: what JAX 0.10.2 gives for the programs of the first seeds.

    LOCKSTEP_FUZZ_JAX=programs.json build/release/tests/fuzz/fuzz_test --gtest_filter=FuzzJax.*
    python3 tests/fuzz/golden.py programs.json tests/fuzz/golden.json

The first line writes the programs, the second runs them under JAX with 8 CPU devices and keeps of each result its
number of elements, a weighted sum, the sum of sizes and the first elements. A program whose results are
in golden.json already is not run again.
"""
import json
import os
import subprocess
import sys
import threading

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + (
    " --xla_force_host_platform_device_count=8 --xla_cpu_collective_call_terminate_timeout_seconds=20")
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import numpy as np  # noqa: E402

jax.config.update("jax_enable_x64", True)

FIRST = 4
PATIENCE = 90  # seconds for a program


def kept(value):
    """Seven digits; what JSON has no number for, as a string."""
    value = float(value)
    return float(f"{value:.7g}") if np.isfinite(value) else str(value)


def summary(x):
    x = np.asarray(x)
    dtype = str(x.dtype)
    if x.dtype == np.complex64:
        x = np.stack([x.real, x.imag], -1)
    elements = x.astype(np.float64).ravel()
    weights = (np.arange(elements.size) * 7 % 11 + 1) / 8
    with np.errstate(all="ignore"):
        return [dtype, elements.size, kept((elements * weights).sum()), kept(np.abs(elements * weights).sum()),
                *map(kept, elements[:FIRST])]


def run(text):
    scope = {}
    folder = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(folder, "prelude.py")) as prelude:
        exec(prelude.read(), scope)
    exec(text, scope)
    return scope["run"]()


def work(programs_file):
    """Runs the programs whose seeds come in on standard input, a line each, and answers with a line of JSON."""
    with open(programs_file) as file:
        programs = json.load(file)
    for line in sys.stdin:
        try:
            answer = [summary(x) for x in run(programs[int(line)]["text"])]
        except Exception as error:
            answer = f"{type(error).__name__}: {str(error)[:600]}"
        print("answer " + json.dumps(answer, separators=(",", ":")), flush=True)
        jax.clear_caches()


class Worker:
    """A process that runs programs; one that ends by itself (XLA's collectives on the CPU may wait for ever, and
    then end the process) is followed by another."""

    def __init__(self, programs_file):
        self.command = [sys.executable, os.path.abspath(__file__), "--work", programs_file]
        self.process = None

    def run(self, seed):
        if self.process is None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.DEVNULL, text=True)
        self.process.stdin.write(f"{seed}\n")
        self.process.stdin.flush()
        limit = threading.Timer(PATIENCE, self.process.kill)
        limit.start()
        try:
            for line in self.process.stdout:
                if line.startswith("answer "):
                    return json.loads(line[len("answer "):])
        finally:
            limit.cancel()
        self.process.wait()
        self.process = None
        return "JAX's process ended"


def main(programs_file, golden_file):
    with open(programs_file) as file:
        programs = json.load(file)
    known = {}
    if os.path.exists(golden_file):
        with open(golden_file) as file:
            known = {each["program"]: each for each in json.load(file)["programs"] if each["outputs"]}
    worker, failed = Worker(programs_file), 0
    for seed, program in enumerate(programs):
        if program["program"] not in known:
            outputs = worker.run(seed)
            if isinstance(outputs, str):
                failed += 1
                print(f"seed {seed}: {outputs}", flush=True)
                outputs = None
            known[program["program"]] = {"program": program["program"], "outputs": outputs}
        if seed % 50 == 49:
            print(f"{seed + 1} programs", flush=True)
    with open(golden_file, "w") as file:
        file.write('{"jax": "%s", "programs": [\n' % jax.__version__)
        file.write(",\n".join(json.dumps(known[each["program"]], separators=(",", ":")) for each in programs))
        file.write("\n]}\n")
    if failed:
        sys.exit(f"{failed} programs have no result")


def one(program_file, answer_file):
    """Runs a program and writes what it gives; None, where JAX cannot run it."""
    with open(program_file) as file:
        text = file.read()
    try:
        answer = [summary(x) for x in run(text)]
    except Exception:
        answer = None
    with open(answer_file, "w") as file:
        json.dump(answer, file)


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        one(*sys.argv[2:])
    elif sys.argv[1] == "--work":
        work(sys.argv[2])
    else:
        main(*sys.argv[1:])
