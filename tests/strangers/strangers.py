#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What strangers at a job's ports cost it.

    tests/strangers/strangers.py build/release/lockstep build/release/tests/strangers/strangers_process [--write]

Each kind of stranger attacks each target for a while: a coordinator that stays, with a secret, and one that lets JAX in; a
process that computes sums with three others, each on a host of its own; the status page; a host's proxy; and a client,
which takes the stranger for its coordinator. Measured are the growth of the target's largest memory (VmHWM), its CPU time
and its descriptors, and how long a job of 4 takes beside the attack, or how many sums it computes. A stranger takes as much
of the machine as it gets, so the job is also measured while the same strangers attack another coordinator on the machine:
the difference is what they cost the job. Each run checks what strangers may cost; --write also writes the tables of
docs/coordination.md.
LOCKSTEP_STRANGERS sets the number of connections (100; 10000 for the table, which also takes longer).
"""
import argparse
import gzip
import os
import queue
import signal
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../faults"))
from table import compare_table, write_table  # noqa: E402

SECRET = "a secret of the strangers' test"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HELLO = b"lockstep hello 1"
CONNECTIONS = int(os.environ.get("LOCKSTEP_STRANGERS", "100"))
SECONDS = 0.2 if CONNECTIONS <= 1000 else 2
ROUNDS = 1 if CONNECTIONS <= 1000 else 5  # of the job, beside strangers of its own and of others
BESIDE = min(SECONDS, 0.7)  # how long strangers attack in each of them
METHODS = ["RegisterTask", "Heartbeat", "ShutdownTask", "WatchTasks", "InsertKeyValue", "GetKeyValue", "TryGetKeyValue",
           "IncrementKeyValue", "GetKeyValueDir", "DeleteKeyValue", "Barrier", "CancelBarrier", "GetAliveTasks",
           "PollForError"]
KIB = 1024
BOMB = gzip.compress(bytes(48 << 20), 9)


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    name, value = name.encode(), value.encode()
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def headers(stream, path="/xla.coordination.CoordinationService/GetKeyValue", encoding="identity"):
    block = b"".join(literal(name, value) for name, value in [
        (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x"), ("te", "trailers"),
        ("content-type", "application/grpc"), ("grpc-encoding", encoding)])
    return frame(1, 4, stream, block)


START = PREFACE + frame(4, 0, 0, b"")


def message(stream, body, compressed=0):
    body = bytes([compressed]) + struct.pack(">I", len(body)) + body
    pieces = [body[i:i + 16384] for i in range(0, len(body), 16384)]
    return b"".join(frame(0, 1 if piece is pieces[-1] else 0, stream, piece) for piece in pieces)


def talk(port, pieces, until):
    """Sends the pieces over one connection, as long as the other side takes them; returns the bytes sent."""
    sent = 0
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            for piece in pieces:
                if time.monotonic() > until:
                    break
                connection.sendall(piece)
                sent += len(piece)
            connection.settimeout(0.05)
            while connection.recv(65536) and time.monotonic() < until:
                pass
    except OSError:
        pass
    return sent


def forever(piece):
    while True:
        yield piece


def slowly(data):
    for byte in data:
        yield bytes([byte])
        time.sleep(0.2)


def silent(port, until):
    held = []
    for _ in range(100):
        held.append(socket.create_connection(("127.0.0.1", port), timeout=5))
    while time.monotonic() < until:
        time.sleep(0.05)
    for each in held:
        each.close()


def many_connections(port, until):
    held = []
    for _ in range(CONNECTIONS):
        if time.monotonic() > until:  # a full backlog lets them wait
            break
        try:
            held.append(socket.create_connection(("127.0.0.1", port), timeout=5))
        except OSError:
            break
        if len(held) == 500:
            held.pop(0).close()
    while time.monotonic() < until:
        time.sleep(0.05)


def again_and_again(*pieces):
    def attack(port, until):
        while time.monotonic() < until:
            talk(port, pieces, min(until, time.monotonic() + 0.2))
    return attack


def bombs(port, until):
    while time.monotonic() < until:
        for method in METHODS:
            path = "/xla.coordination.CoordinationService/" + method
            talk(port, [START + headers(1, path, "gzip") + message(1, BOMB, 1)], min(until, time.monotonic() + 0.2))


def continuation(port, until):
    while time.monotonic() < until:
        first = frame(1, 0, 1, b"\x00\x01x\x7f\x81\xa7\xd6\xb9\x07" + b"a" * 1000)
        talk(port, iter_of(START + first, frame(9, 0, 1, b"a" * 16384)), until)


def iter_of(first, rest):
    yield first
    yield from forever(rest)


def rapid_reset(port, until):
    streams = b"".join(headers(i) + frame(3, 0, i, struct.pack(">I", 8)) for i in range(1, 2001, 2))
    while time.monotonic() < until:
        talk(port, iter_of(START, streams), until)


def many_streams(port, until):
    streams = b"".join(headers(i) for i in range(1, 4001, 2))
    while time.monotonic() < until:
        talk(port, iter_of(START, streams), until)


def tls(port, until):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    while time.monotonic() < until:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                context.wrap_socket(connection)
        except OSError:
            pass


def greeting_of_a_process(target):
    """What a process of the job sends before gRPC does, as somebody on the way hears it."""
    with socket.create_server(("127.0.0.1", 0)) as between:
        process = subprocess.Popen([target.arguments.program, f"127.0.0.1:{between.getsockname()[1]}", "4", "0"],
                                   env=target.environment, stdout=subprocess.DEVNULL)
        client, _ = between.accept()
        with client, socket.create_connection(("127.0.0.1", target.ports[0])) as server:
            heard = b""
            for size in (33, 49):  # the answers: a challenge, and a proof
                some = client.recv(65536)
                heard += some
                server.sendall(some)
                client.sendall(server.recv(size, socket.MSG_WAITALL))
        process.kill()
        process.wait()
    return heard


def replays(port, until):
    heard = GREETINGS[port]
    while time.monotonic() < until:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                connection.sendall(heard[:32])
                connection.recv(33, socket.MSG_WAITALL)
                connection.sendall(heard[32:])
                answer = connection.recv(65536)
                if port in GREETED and answer and answer[16:17] != b"r":
                    PROBLEMS.append("a greeting that was heard is taken again")
        except OSError:
            pass


GREETINGS = {}  # by port
GREETED = set()  # ports where a coordinator or its proxy answers greetings
PROBLEMS = []
STRANGERS = {
    "none": lambda port, until: time.sleep(SECONDS),
    "silent": silent,
    "slow": lambda port, until: talk(port, slowly(START + HELLO * 100), until),
    "garbage": lambda port, until: again_and_again(os.urandom(64 * KIB))(port, until),
    "gzip bombs of every method": bombs,
    "continuation frames": continuation,
    "rapid reset": rapid_reset,
    "many streams": many_streams,
    "huge frames": again_and_again(START + frame(0, 0, 1, bytes((1 << 24) - 1))),
    "TLS at a plain port": tls,
    "many connections": many_connections,
    "half-sent greetings": again_and_again(HELLO + bytes(16), b"\xff\x0f" + bytes(100)),
    "replays": replays,
}


class Target:
    """What strangers attack: a port of a process."""
    jax = False  # whether strangers may speak to gRPC

    def __init__(self, arguments, name):
        self.name, self.arguments = name, arguments
        self.environment = {**os.environ, "LOCKSTEP_JOB_SECRET": SECRET}
        self.started = []

    def start(self, command, **options):
        process = subprocess.Popen(command, env=self.environment, text=True,
                                   **{"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, **options})
        self.started.append(process)
        return process

    def start_coordinator(self, *options):
        """The process, and its address."""
        process = self.start([self.arguments.launcher, "coordinator", "--num-processes", "4", "--keep", *options])
        address = process.stdout.readline().split()[-1]
        threading.Thread(target=process.stdout.read, daemon=True).start()
        return process, address

    def start_other(self, *options):
        """Another coordinator on the machine, which strangers may attack instead."""
        port = int(self.start_coordinator(*options)[1].rsplit(":", 1)[1])
        self.other = [port] * len(self.ports)

    def memory(self):
        with open(f"/proc/{self.pid}/status") as file:
            fields = dict(line.split(":", 1) for line in file)
        return int(fields["VmHWM"].split()[0])

    def forget_peak(self):
        with open(f"/proc/{self.pid}/clear_refs", "w") as file:
            file.write("5")

    def cpu(self):
        with open(f"/proc/{self.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def attack(self, attack, until, ports=None):
        threads = [threading.Thread(target=attack, args=[port, until]) for port in ports or self.ports]
        for thread in threads:
            thread.start()
        return threads

    def measure(self, attack):
        """The growth of its memory in KiB, seconds of CPU, and more descriptors."""
        self.forget_peak()
        memory, cpu, descriptors = self.memory(), self.cpu(), self.descriptors()
        until = time.monotonic() + SECONDS
        threads = self.attack(attack, until)
        most = 0
        while time.monotonic() < until:
            most = max(most, self.descriptors())
            time.sleep(0.02)
        for thread in threads:
            thread.join()
        return {"memory": self.memory() - memory, "cpu": self.cpu() - cpu, "descriptors": most - descriptors}

    unit = None  # of what a job is measured by, if there is one; of rates, more is better

    def job(self, attack):
        """How the job does beside the attack, and beside one of another coordinator: medians."""
        both = {"own": [], "other": []}
        for _ in range(ROUNDS):
            for name, ports in (("own", self.ports), ("other", self.other)):
                both[name].append(self.beside(attack, ports))
        return [statistics.median(both[name]) for name in ("own", "other")]

    def end(self):
        for process in self.started:
            assert process.poll() is None, f"{self.name}: {process.args[0]} has ended"
        for process in reversed(self.started):
            process.terminate()
            process.wait()


class Coordinator(Target):
    """Serves 4 processes again and again."""
    unit = " s"

    def __init__(self, arguments, name, *options):
        super().__init__(arguments, name)
        self.jax = bool(options)
        process, self.address = self.start_coordinator(*options)
        self.pid = process.pid
        self.ports = [int(self.address.rsplit(":", 1)[1])]
        self.start_other(*options)
        self.start_job()

    def start_job(self):
        """Four processes join, write and read keys, and leave; the seconds that it takes."""
        began = time.monotonic()
        processes = [subprocess.Popen([self.arguments.program, self.address, "4", str(i)], env=self.environment,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for i in range(4)]
        for process in processes:
            output, _ = process.communicate(timeout=120)
            assert process.returncode == 0, f"{self.name}: a process of the job failed beside strangers:\n{output}"
        return time.monotonic() - began

    def beside(self, attack, ports):
        threads = self.attack(attack, time.monotonic() + BESIDE, ports)
        time.sleep(BESIDE / 10)
        seconds = self.start_job()
        for thread in threads:
            thread.join()
        return seconds


def listening_ports(pid):
    """The TCP ports at which the process listens."""
    sockets = set()
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        try:
            sockets.add(os.readlink(f"/proc/{pid}/fd/{descriptor}"))
        except OSError:
            pass
    ports = []
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}") as file:
            for fields in map(str.split, file):
                if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                    ports.append(int(fields[1].rsplit(":", 1)[1], 16))
    return ports


class DataPorts(Target):
    """The ports of process 0 of four that compute sums, each as if on a host of its own."""
    unit = "/s"

    def __init__(self, arguments, name):
        super().__init__(arguments, name)
        self.address = self.start_coordinator()[1]
        self.processes = [self.start([arguments.program, self.address, "4", str(i), "--train"], stderr=subprocess.STDOUT)
                          for i in range(4)]
        self.pid, self.steps = self.processes[0].pid, 0
        threading.Thread(target=self.count, daemon=True).start()
        while self.steps == 0:
            assert self.processes[0].poll() is None, "a job beside no strangers failed"
            time.sleep(0.05)
        self.ports = listening_ports(self.pid)  # for data, and for what else processes tell each other
        assert len(self.ports) == 2, self.ports
        self.start_other()

    def count(self):
        for line in self.processes[0].stdout:
            if line.strip().isdecimal():
                self.steps = int(line)
            else:
                PROBLEMS.append(f"{self.name}: {line.strip()}")

    def beside(self, attack, ports):
        before, began = self.steps, time.monotonic()
        for thread in self.attack(attack, began + BESIDE, ports):
            thread.join()
        return (self.steps - before) / (time.monotonic() - began)

    def end(self):
        self.processes[0].send_signal(signal.SIGTERM)
        for process in self.processes:
            assert process.wait(60) == 0, f"{self.name}: a process of the job failed beside strangers"
            self.started.remove(process)
        super().end()


class Page(Target):
    """The status page of a job."""

    def __init__(self, arguments, name):
        super().__init__(arguments, name)
        launcher = self.start([arguments.launcher, "run", "-n", "1", "--status-port", "0", "--", "sleep", "1000"],
                              stderr=subprocess.PIPE)
        self.pid = launcher.pid
        for line in launcher.stderr:
            if "the status page is at" in line:
                self.ports = [int(line.split("http://127.0.0.1:")[1].split("/")[0])]
                break
        threading.Thread(target=launcher.stderr.read, daemon=True).start()


class Proxy(Target):
    """The agent of a host, through which the host's processes reach the coordinator."""
    def __init__(self, arguments, name):
        super().__init__(arguments, name)
        self.folder = tempfile.TemporaryDirectory()
        rsh = os.path.join(self.folder.name, "rsh")
        with open(rsh, "w") as file:
            file.write("#!/bin/sh\nshift\nexec sh -c \"$*\"\n")
        os.chmod(rsh, 0o755)
        launcher = self.start([arguments.launcher, "run", "--hosts", "a:1", "--rsh", rsh, "--coordinator-address",
                               "127.0.0.1", "-x", "LOCKSTEP_HOST_PROXY=1", "--", "sh", "-c",
                               "echo by $LOCKSTEP_COORDINATOR_PROXY agent $PPID; exec sleep 1000"])
        for line in launcher.stdout:
            if " by " in line:
                words = line.split()
                self.ports, self.pid = [int(words[-3].rsplit(":", 1)[1])], int(words[-1])
                break
        threading.Thread(target=launcher.stdout.read, daemon=True).start()


class Client(Target):
    """A process that calls a stranger in place of its coordinator: each of its connections is one of the stranger's. It
    may end at once, with an error; so each kind of stranger has a new one."""
    alone = None

    def __init__(self, arguments, name):
        super().__init__(arguments, name)
        self.callers = socket.create_server(("127.0.0.1", 0))
        self.strangers = socket.create_server(("127.0.0.1", 0), backlog=1000)
        self.ports = [self.strangers.getsockname()[1]]
        self.called = queue.Queue()  # connections of the client
        threading.Thread(target=self.answer, daemon=True).start()
        threading.Thread(target=self.join, daemon=True).start()

    def answer(self):
        while True:
            self.called.put(self.callers.accept()[0])

    def join(self):
        while True:
            stranger, _ = self.strangers.accept()
            caller = self.called.get()
            for source, target in ((caller, stranger), (stranger, caller)):
                threading.Thread(target=self.pump, args=[source, target], daemon=True).start()

    @staticmethod
    def pump(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        for each in (source, target):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def measure(self, attack):
        """Against a client that waits for an answer until it is killed."""
        address = f"127.0.0.1:{self.callers.getsockname()[1]}"
        while not self.called.empty():
            self.called.get().close()
        client = subprocess.Popen([self.arguments.program, address, "4", "1"], env=self.environment,
                                  stdout=subprocess.DEVNULL)
        self.called.put(self.called.get(timeout=60))
        until = time.monotonic() + SECONDS
        most = 0
        threads = self.attack(attack, until)
        while time.monotonic() < until:
            try:
                most = max(most, len(os.listdir(f"/proc/{client.pid}/fd")))
            except FileNotFoundError:
                break
            time.sleep(0.02)
        client.kill()
        _, _, usage = os.wait4(client.pid, 0)
        client.returncode = 0
        for thread in threads:
            thread.join()
        cost = {"memory": usage.ru_maxrss, "cpu": usage.ru_utime + usage.ru_stime, "descriptors": most}
        if self.alone is None:
            self.alone = cost
        return {what: cost[what] - self.alone[what] for what in cost}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("launcher", type=os.path.abspath)
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("--page", default=os.path.join(os.path.dirname(__file__), "../../docs/coordination.md"))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    tables = [("strangers", [Coordinator(arguments, "coordinator"),
                             Coordinator(arguments, "coordinator, `--allow-jax`", "--allow-jax")]),
              ("strangers elsewhere", [DataPorts(arguments, "data ports"), Page(arguments, "page"),
                                       Proxy(arguments, "proxy"), Client(arguments, "client")])]
    failures = 0
    heard = greeting_of_a_process(tables[0][1][0])
    for title, targets in tables:
        for target in targets:
            for port in target.ports:
                GREETINGS[port] = greeting_of_a_process(target) if isinstance(target, Coordinator) else heard
                if isinstance(target, (Coordinator, Proxy)):
                    GREETED.add(port)
            for port in getattr(target, "other", []):
                GREETINGS[port] = heard
                GREETED.add(port)
        header, rows = ["strangers"], []
        for target in targets:
            header += [f"{target.name}: memory", "CPU", "descriptors"]
            header += [{" s": "job", "/s": "sums"}[target.unit], "beside others' strangers"] if target.unit else []
        for name, attack in STRANGERS.items():
            if arguments.only and arguments.only not in name and name != "none":
                continue
            cells = [name]
            for target in targets:
                cost = target.measure(attack)
                digits = 2 if target.unit == " s" else 0
                job = [f"{figure:.{digits}f}{target.unit}" for figure in (target.job(attack) if target.unit else [])]
                print(f"{name}, {target.name}: {cost['memory']} KiB, {cost['cpu']:.2f} s of CPU in {SECONDS} s, "
                      f"{cost['descriptors']} descriptors{'; the job: ' if job else ''}"
                      f"{' beside them, beside those of others '.join(job)}", flush=True)
                # A stranger has 64 KiB; where JAX is let in, gRPC serves up to 256 of them, and what 64 KiB become.
                most = 256 * KIB if target.jax else max(8 * KIB, 64 * cost["descriptors"])
                if cost["memory"] > most or cost["descriptors"] > 600:
                    failures += 1
                    print(f"{name}, {target.name}: more than a stranger may cost", flush=True)
                cells += [f"{max(cost['memory'], 0) / KIB:.1f} MiB", f"{round(100 * max(cost['cpu'], 0) / SECONDS)} %",
                          str(max(cost["descriptors"], 0)), *job]
            rows.append(cells)
        for target in targets:
            target.end()
        if arguments.write:
            write_table(arguments.page, title, header, rows)
        elif not arguments.only:  # figures vary
            failures += compare_table(arguments.page, title, header, [[row[0], *[None] * (len(header) - 1)] for row in rows])
    for problem in PROBLEMS[:3]:
        print(problem)
    sys.exit(1 if failures or PROBLEMS else 0)


if __name__ == "__main__":
    main()
