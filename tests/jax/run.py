# SPDX-License-Identifier: Apache-2.0
"""Jobs in which Lockstep and JAX meet.

run.py jax_joins_lockstep N TOOL       N processes of JAX with `TOOL coordinator`
run.py lockstep_joins_jax N PROGRAM    N processes of Lockstep's client, PROGRAM, with JAX's own service

Exit status 0 where all went well, 77 where JAX cannot be had here, 1 otherwise.
"""

import os
import pathlib
import subprocess
import sys

import jax_python

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 240
SKIPPED = 77


def first_line(process):
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"{process.args} ended with {process.wait()} and no word")
    return line.strip()


def run_all(commands, env=None):
    """Runs them side by side and prints what each wrote; whether all ended with status 0."""
    processes = [subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, env=env) for command in commands]
    good = True
    try:
        for command, process in zip(commands, processes):
            output, _ = process.communicate(timeout=SECONDS)
            print(f"-- {command[-1]}: status {process.returncode}\n{output}", end="")
            good = good and process.returncode == 0
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    return good


def jax_joins_lockstep(python, count, tool):
    env = {**os.environ, "LOCKSTEP_JOB_SECRET": "JAX cannot know it", "LOCKSTEP_JOB_ID": "of JAX"}
    coordinator = subprocess.Popen([tool, "coordinator", "--allow-jax", "--num-processes", str(count)],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    try:
        address = first_line(coordinator).split()[-1]
        good = run_all([[python, HERE / "jax_process.py", address, count, i] for i in range(count)])
        try:
            rest, _ = coordinator.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            print("the coordinator is still there")
            return False
        print(f"-- coordinator: status {coordinator.returncode}\n{rest}", end="")
        return good and coordinator.returncode == 0
    finally:
        coordinator.kill()
        coordinator.wait()


def jax_comes_again(python, count, tool):
    """Two starts of JAX's processes at one coordinator that stays for them."""
    env = {**os.environ, "LOCKSTEP_JOB_SECRET": "JAX cannot know it", "LOCKSTEP_JOB_ID": "of JAX"}
    coordinator = subprocess.Popen([tool, "coordinator", "--allow-jax", "--keep", "--num-processes", str(count)],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    try:
        address = first_line(coordinator).split()[-1]
        good = all(run_all([[python, HERE / "jax_process.py", address, count, i] for i in range(count)])
                   for _ in range(2))
        coordinator.terminate()
        rest, _ = coordinator.communicate(timeout=10)
        print(f"-- coordinator: status {coordinator.returncode}\n{rest}", end="")
        return good and coordinator.returncode == 0
    finally:
        coordinator.kill()
        coordinator.wait()


def lockstep_joins_jax(python, count, program):
    service = subprocess.Popen([python, HERE / "jax_service.py", str(count)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    try:
        address = first_line(service)
        good = run_all([[program, address, count, i] for i in range(count)])
        service.stdin.close()
        return service.wait(timeout=30) == 0 and good
    finally:
        service.kill()
        service.wait()


def main():
    scenario, count, program = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    try:
        python = jax_python.jax_python()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"skipped: JAX cannot be installed here: {error}")
        return SKIPPED
    scenarios = {"jax_joins_lockstep": jax_joins_lockstep, "jax_comes_again": jax_comes_again,
                 "lockstep_joins_jax": lockstep_joins_jax}
    return 0 if scenarios[scenario](python, count, program) else 1


if __name__ == "__main__":
    sys.exit(main())
