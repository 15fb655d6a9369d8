#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs jobs under limits and where something is missing: each must work, or a line must name the limit.

    tests/faults/limits.py build/release/lockstep build/release/tests/faults/faults_test [--write]

Each row is a job, by default of two processes that compute together and then write a file each. The results are the
second table of docs/failure.md, to which each run is compared; --write writes it.
"""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

from processes import namespaces_can_be_made
from table import parse_arguments, write_or_compare

USER = 61234  # has no other processes: `ulimit -u` counts those of a user
WORKS = "works"


def shell(script):
    """Words before those of a command, which is "$@" in the script."""
    return ["bash", "-c", script, "bash"]


def limit(option, value):
    return shell(f'ulimit -{option} {value}; exec "$@"')


def place(script):
    """Words before those of a command, which gets mounts of its own, by the script."""
    return ["unshare", "--mount", "--propagation", "private", *shell(script + '; exec "$@"')]


NEW_PIDS = ["unshare", "--pid", "--fork", "--mount-proc"]
LOGS = ["--log-dir", "logs", "--show-output", "none"]


class Row:
    """`around` is before the launcher's command, `inside` before that of each process. A line that contains `says` is
    expected; `works`: the job ends with status 0."""

    def __init__(self, name, around=(), inside=(), n=2, options=(), program=None, says=None, works=True, user=False):
        self.name, self.around, self.inside, self.n, self.options = name, list(around), list(inside), n, options
        self.program, self.says, self.works = program, says, works
        if user:
            self.around = ["setpriv", f"--reuid={USER}", "--clear-groups", *self.around]
        self.needs_root = {"setpriv", "unshare"} & {*self.around, *self.inside}


ROWS = [
    Row("launcher: `ulimit -n 64`, 60 processes", limit("n", 64), n=60, program=["true"], says="descriptors",
        works=False),
    Row("launcher: `ulimit -n 20`", limit("n", 20), says="descriptors", works=False),
    Row("process: `ulimit -n 12`", inside=limit("n", 12), says="ulimit -n: 12", works=False),
    Row("launcher: `ulimit -u 10`", limit("u", 10), says="ulimit -u: 10", works=False, user=True),
    Row("launcher: `ulimit -u 20`, 16 processes", limit("u", 20), n=16, program=["sleep", "5"], says="ulimit -u: 20",
        works=False, user=True),
    Row("process: `ulimit -u 20`", inside=limit("u", 20), says="ulimit -u: 20", works=False, user=True),
    Row("launcher: `ulimit -v 300000`", limit("v", 300000), says="ulimit -v: 300000", works=False),
    Row("process: `ulimit -v 500000`", inside=limit("v", 500000), says="ulimit -v: 500000", works=False),
    Row("launcher: `ulimit -f 8000`", limit("f", 8000), says="ulimit -f: 8000"),
    Row("launcher: `ulimit -f 100`, and `--log-dir`", limit("f", 100), options=LOGS,
        program=["head", "-c", "200000", "/dev/zero"], says="from here on logs lack"),
    Row("process: `ulimit -f 1000`", inside=limit("f", 1000), says="ulimit -f: 1000", works=False),
    Row("process: `ulimit -f 10`, it writes a larger file", inside=limit("f", 10),
        program=shell("exec head -c 100000 /dev/zero > file"), says="ulimit -f", works=False),
    Row("process: `ulimit -S -t 1`", inside=limit("S -t", 1), program=shell("while :; do :; done"), says="ulimit -t",
        works=False),
    Row("both: `ulimit -l 0`", limit("l", 0)),
    Row("a /dev/shm of 64 KiB", place("mount -t tmpfs -o size=64k tmpfs /dev/shm")),
    Row("a full disk, and `--log-dir`", place("mkdir logs; mount -t tmpfs -o size=64k tmpfs logs"), options=LOGS,
        program=["head", "-c", "200000", "/dev/zero"], says="from here on logs lack"),
    Row("no /proc", place("mount -t tmpfs tmpfs /proc")),
    Row("launcher: process 1 of a pid namespace", NEW_PIDS),
    Row("process: in a pid namespace of its own", inside=NEW_PIDS),
    Row("standard input is closed", shell('exec "$@" <&-')),
    Row("standard output is closed", shell('exec "$@" >&-')),
    Row("standard error is closed", shell('exec "$@" 2>&-')),
    Row("all three are closed", shell('exec "$@" <&- >&- 2>&-')),
    Row("the reader of a pipe has left", shell('set -o pipefail; "$@" | true')),
]


def lacks(row, arguments):
    """Why it cannot be run here, or None."""
    if row.needs_root and os.geteuid() != 0:
        return "needs root"
    if "setpriv" in row.needs_root and any(
            subprocess.run([*row.around[:3], "test", "-x", file]).returncode
            for file in (arguments.launcher, arguments.program)):
        return "needs a tree that other users can read"
    if "unshare" in row.needs_root and not namespaces_can_be_made():
        return "needs namespaces"
    return None


def run(arguments, row):
    folder = tempfile.mkdtemp(prefix="lockstep-limits-")
    os.chmod(folder, 0o777)
    words = [*row.around, arguments.launcher, "run", "-n", str(row.n), "--no-bind", *row.options, "--", *row.inside,
             *(row.program or [arguments.program, "none", "TERM"])]
    environment = {**os.environ, "LOCKSTEP_TESTING_CHILD": "saves_when_told_to_stop", "NPROC": "1", "HOME": folder,
                   "LOCKSTEP_SOCKET_DIR": os.path.join(folder, "sockets")}
    output = open(os.path.join(folder, "output"), "w+b")
    job = subprocess.Popen(words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                           start_new_session=True)
    try:
        status = job.wait(timeout=60)
    except subprocess.TimeoutExpired:
        status = None
        os.killpg(job.pid, 9)
        job.wait()
    output.seek(0)
    text = output.read().decode(errors="replace")
    worked = status == 0 and (row.program or all(os.path.exists(f"{folder}/saved-{i}") for i in range(row.n)))
    shutil.rmtree(folder, ignore_errors=True)
    if status is None:
        return "hangs", text
    said = next((line for line in text.splitlines() if row.says and re.search(row.says, line)), None)
    if said is not None:
        said = re.sub(r"^(lockstep: |\[\d+\] )+(what\(\): |the child threw: )?", "", said)
        said = said.replace(folder, "DIR")
        said = re.sub(r"process \d+ \(host [^)]*\)", "process 0 (host b, pid 4711)", said)
        said = re.sub(r"process(.)\d(?= of|\.log)", r"process\g<1>0", said)
        said = re.sub(r"only \d+ can", "only N can", re.sub(r"\d+ bytes", "N bytes", said))
        said = said.replace(arguments.launcher, "lockstep").replace(arguments.program, "./train")
        said = f"`{said}`"
    if row.says and said is None:
        return f"status {status}, and says nothing of it", text
    if bool(worked) != row.works:
        return f"status {status}", text
    return "; ".join(part for part in (WORKS if worked else None, said) if part), text


def main():
    arguments = parse_arguments()
    rows = [row for row in ROWS if arguments.only in row.name]
    results, failed = {}, 0
    for row in rows:
        if why := lacks(row, arguments):
            print(f"{row.name}: not run: {why}")
    runs = [row for row in rows if not lacks(row, arguments)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for row, (result, output) in zip(runs, pool.map(lambda row: run(arguments, row), runs)):
            results[row.name] = result
            good = result.startswith((WORKS, "`"))
            if arguments.only or not good:
                print(f"{row.name}: {result}\n{output}", flush=True)
            failed += not good
    print(f"{len(runs)} limits, {failed} not as they should be", flush=True)
    header, table = ["limit", "what happens"], [[row.name, results.get(row.name)] for row in rows]
    failed += write_or_compare(arguments, "limits", header, table)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
