#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stops jobs in all ways, at all moments of a program, and checks that every process has saved.

    tests/faults/stops.py build/release/lockstep build/release/tests/faults/faults_test [--write]

Each wrapper starts `lockstep run -n 2` of a program that saves when it is told to stop. When the program has come to a
moment, one of its processes is held there, the wrapper is stopped, and 0.2 s later the process goes on. Both must then
save and end within 30 s, and no process may be left. The results are the first table of docs/failure.md, to which each
run is compared. A run takes each wrapper at one moment and each moment with some wrapper; LOCKSTEP_STOPS=all takes every
pair. --write does that too, and writes the table.
"""
import concurrent.futures
import fcntl
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time

from processes import namespaces_can_be_made, processes_with
from table import parse_arguments, write_or_compare

MOMENTS = ["initialize", "compile", "collective", "save", "last step", "shutdown"]
LONGEST_START = 200  # seconds; the test itself is ended by its own limit
PATIENCE = 30  # seconds until all must have ended; a machine may have much else to do


class Job:
    """A wrapper in a folder of its own, with or without a terminal."""

    def __init__(self, arguments, words, stop_signal, moment, terminal=False, wrapper=(), environment=None):
        self.folder = tempfile.mkdtemp(prefix="lockstep-stops-")
        self.mark = f"{os.getpid()}-{os.path.basename(self.folder)}"
        self.environment = {**os.environ, "STOPS": self.mark, "LOCKSTEP_TESTING_CHILD": "saves_when_told_to_stop",
                            "LOCKSTEP_SOCKET_DIR": os.path.join(self.folder, "sockets")}
        self.command = [arguments.launcher, "run", "-n", "2", "--no-bind", "--", arguments.program, moment, stop_signal]
        self.wrapper, self.terminal, self.master = wrapper, terminal, None
        self.words = words
        self.log = open(os.path.join(self.folder, "log"), "w+b")

    def start(self):
        command = [*self.wrapper, *(self.words(self) if self.words else self.command)]
        options = dict(cwd=self.folder, env=self.environment, start_new_session=True)
        if not self.terminal:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                            **options)
            return
        self.master, slave = os.openpty()
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), **options)
        os.close(slave)
        threading.Thread(target=self.copy_terminal, args=[self.master], daemon=True).start()

    def copy_terminal(self, master):
        try:
            while got := os.read(master, 65536):
                self.log.write(got)
                self.log.flush()
        except (OSError, ValueError):
            pass

    def path(self, name):
        return os.path.join(self.folder, name)

    def press(self, key):
        os.write(self.master, key)

    def kill(self, number):
        self.process.send_signal(number)

    def kill_group(self, number):
        os.killpg(self.process.pid, number)

    def processes(self):
        return list(processes_with("STOPS", self.mark))

    def kill_each(self, number):
        for pid in self.processes():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def launcher(self):
        """The launcher's pid, wherever the wrapper has it."""
        for pid in self.processes():
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if words[:2] == [self.command[0].encode(), b"run"]:
                return pid
        raise RuntimeError("no launcher")

    def until(self, condition, seconds):
        deadline = time.monotonic() + seconds
        while not (met := condition()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return met

    def end(self):
        self.kill_each(signal.SIGKILL)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.master is not None:
            os.close(self.master)
        self.log.seek(0)
        text = self.log.read().decode(errors="replace")
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        return text


def in_makefile(job):
    with open(job.path("Makefile"), "w") as file:
        file.write("train:\n\t@" + shlex.join(job.command) + "\n")
    return ["make", "train"]


def stopped_and_continued(job):
    job.press(b"\x1a")
    time.sleep(0.3)
    job.press(b"fg\n")
    time.sleep(0.3)
    job.press(b"\x03")


def by_a_service_manager(job):
    job.kill(TERM)
    time.sleep(0.05)  # the kernel merges two that are pending
    job.kill_group(TERM)


def twice(job):
    job.press(b"\x03")
    time.sleep(0.3)
    job.press(b"\x03")


def on_two_hosts(job):
    """Two names for this host, reached by a script in place of ssh, whose processes carry the connection."""
    with open(job.path("rsh"), "w") as file:
        file.write('#!/bin/sh\nshift\ncat | sh -c "$*" | cat\n')
    os.chmod(job.path("rsh"), 0o700)
    run = job.command.index("run") + 1
    return [*job.command[:run], "--hosts", "a:1,b:1", "--rsh", job.path("rsh"), "--coordinator-address", "127.0.0.1",
            *job.command[run:]]


class Sshd:
    """An sshd on loopback for this user, started when it is first needed."""

    def __init__(self):
        self.lock, self.process = threading.Lock(), None

    def words(self, job):
        with self.lock:
            if self.process is None:
                self.start()
        variables = [f"{name}={shlex.quote(job.environment[name])}"
                     for name in ("STOPS", "LOCKSTEP_TESTING_CHILD", "LOCKSTEP_SOCKET_DIR")]
        given = [f"{name}={shlex.quote(value)}" for name, value in os.environ.items() if name.startswith("LOCKSTEP_")]
        return ["ssh", "-tt", "-F", "/dev/null", "-i", f"{self.folder}/key", "-p", str(self.port),
                "-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
                "-o", "LogLevel=ERROR", "127.0.0.1",
                f"cd {job.folder} && exec env {' '.join(given + variables)} {shlex.join(job.command)}"]

    def start(self):
        self.folder = tempfile.mkdtemp(prefix="lockstep-stops-sshd-")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        for name in ("key", "hostkey"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{self.folder}/{name}"], check=True)
        with open(f"{self.folder}/config", "w") as file:
            file.write(f"ListenAddress 127.0.0.1\nPort {self.port}\nHostKey {self.folder}/hostkey\nStrictModes no\n"
                       f"AuthorizedKeysFile {self.folder}/key.pub\nUsePAM no\nPermitRootLogin yes\nPidFile none\n")
        sshd = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin")
        self.process = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", f"mount -t tmpfs tmpfs /run && mkdir /run/sshd && exec {sshd} -D -f "
             f"{self.folder}/config"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            shutil.rmtree(self.folder, ignore_errors=True)


SSHD = Sshd()
TERM, INT, HUP = signal.SIGTERM, signal.SIGINT, signal.SIGHUP

# The way each job is started, the signal that reaches its processes, and what stops it.
WRAPPERS = {
    "`timeout`, at its end": (dict(wrapper=["timeout", "100"]), "TERM", lambda job: job.kill(TERM)),
    "`nohup`, a HUP and then TERM": (dict(wrapper=["nohup"]), "TERM", lambda job: (job.kill(HUP), job.kill(TERM))),
    "`setsid`, TERM to the group": (dict(wrapper=["setsid", "--wait"]), "TERM",
                                    lambda job: os.killpg(job.launcher(), TERM)),
    "`script`, which ends": (dict(words=lambda job: ["script", "-qec", shlex.join(job.command), "/dev/null"]), "HUP",
                             lambda job: job.kill(signal.SIGKILL)),
    "`make`, Ctrl-C": (dict(words=in_makefile, terminal=True), "INT", lambda job: job.press(b"\x03")),
    "`make`, TERM to it": (dict(words=in_makefile), "TERM", lambda job: job.kill(TERM)),
    "`ssh -t`, Ctrl-C": (dict(words=SSHD.words, terminal=True), "INT", lambda job: job.press(b"\x03")),
    "`ssh -t`, whose connection is lost": (dict(words=SSHD.words, terminal=True), "HUP",
                                           lambda job: job.kill(signal.SIGKILL)),
    "a service manager: TERM to the launcher and to its group": (
        {}, "TERM", by_a_service_manager),
    "a control group: TERM to every process": ({}, "TERM", lambda job: job.kill_each(TERM)),
    "a control group, on two hosts: TERM to every process": (
        dict(words=on_two_hosts), "TERM", lambda job: job.kill_each(TERM)),
    "`docker stop` (the launcher is process 1 of a pid namespace)": (
        dict(wrapper=["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]), "TERM",
        lambda job: os.kill(job.launcher(), TERM)),
    "a terminal, Ctrl-C": (dict(terminal=True), "INT", lambda job: job.press(b"\x03")),
    "a terminal, Ctrl-Z, `fg`, Ctrl-C": (
        dict(words=lambda job: ["bash", "-c", "set -m; " + shlex.join(job.command) + "; read -r word; $word"],
             terminal=True), "INT", stopped_and_continued),
    "a terminal, Ctrl-C twice": (dict(terminal=True), "INT", twice),
    "a terminal that is closed": (dict(terminal=True), "HUP", None),
}
SAVED, ENDED = "saved", "ended at once"
EXPECTED = {"a terminal, Ctrl-C twice": ENDED}


def missing_for(wrapper):
    """Why it cannot be run here, or None."""
    if ("ssh" in wrapper or "docker" in wrapper) and os.geteuid() != 0:
        return "needs root"
    if "ssh" in wrapper and not all(shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin")
                                    for tool in ("ssh", "sshd", "ssh-keygen")):
        return "needs ssh and sshd"
    if "docker" in wrapper and not namespaces_can_be_made():
        return "needs namespaces"
    return None


def run(arguments, wrapper, moment):
    """The result, a cell of the table, and the output."""
    how, stop_signal, stop = WRAPPERS[wrapper]
    job = Job(arguments, how.get("words"), stop_signal, moment, how.get("terminal", False), how.get("wrapper", ()))
    saved = lambda: all(os.path.exists(job.path(f"saved-{process}")) for process in range(2))
    job.start()
    try:
        job.until(lambda: os.path.exists(job.path("at")) or job.process.poll() is not None, LONGEST_START)
        if not os.path.exists(job.path("at")):
            return "has not reached the moment", job.end()
        if stop is None:
            master, job.master = job.master, None
            os.close(master)
        else:
            stop(job)
        began = time.monotonic()
        if EXPECTED.get(wrapper, SAVED) == SAVED:
            time.sleep(0.2)
            open(job.path("told"), "w").close()
        job.until(lambda: not job.processes(), PATIENCE)
        took, left, has_saved = time.monotonic() - began, job.processes(), saved()
        if left:
            result = f"{len(left)} processes run after {took:.0f} s"
        elif EXPECTED.get(wrapper, SAVED) == ENDED:  # by the signal: the process is still held
            result = ENDED
        else:
            result = SAVED if has_saved else "not saved"
        return result, job.end()
    except Exception as error:
        return f"{type(error).__name__}: {error}", job.end()


def main():
    arguments = parse_arguments()
    whole = arguments.write or os.environ.get("LOCKSTEP_STOPS") == "all"
    pairs = [(wrapper, moment) for i, wrapper in enumerate(WRAPPERS) for j, moment in enumerate(MOMENTS)
             if whole or (i % len(MOMENTS) == j and "ssh" not in wrapper)]
    if arguments.only:
        pairs = [(wrapper, moment) for wrapper in WRAPPERS for moment in MOMENTS if arguments.only in wrapper]
    for wrapper in sorted({wrapper for wrapper, _ in pairs}):
        if why := missing_for(wrapper):
            print(f"{wrapper}: not run: {why}")
            pairs = [pair for pair in pairs if pair[0] != wrapper]
    results, failed = {}, 0
    try:
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            for pair, (result, output) in zip(pairs, pool.map(lambda pair: run(arguments, *pair), pairs)):
                results[pair] = result
                if result != EXPECTED.get(pair[0], SAVED):
                    failed += 1
                    print(f"{pair[0]}, {pair[1]}: {result}\n{output}", flush=True)
    finally:
        SSHD.stop()
    print(f"{len(pairs)} stops, {failed} not as they should be", flush=True)
    header = ["wrapper, and what stops it", *MOMENTS]
    rows = [[wrapper, *(results.get((wrapper, moment)) for moment in MOMENTS)] for wrapper in WRAPPERS]
    failed += write_or_compare(arguments, "stops", header, rows)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
