#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What strangers at a job's ports cost it.

    tests/strangers/strangers.py build/release/lockstep build/release/tests/strangers/strangers_process [--write]

Each kind of stranger attacks each target for a while: a coordinator that stays, with a secret, and one that lets JAX in.
Measured are the growth of the target's largest memory (VmHWM), its CPU time and its descriptors, and how long a job of 4
takes beside the attack. Each run checks what strangers may cost; --write also writes the table of docs/coordination.md.
LOCKSTEP_STRANGERS sets the number of connections (100; 10000 for the table, which also takes longer).
"""
import argparse
import gzip
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../faults"))
from table import compare_table, write_table  # noqa: E402

SECRET = "a secret of the strangers' test"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HELLO = b"lockstep hello 1"
CONNECTIONS = int(os.environ.get("LOCKSTEP_STRANGERS", "100"))
SECONDS = 0.4 if CONNECTIONS <= 1000 else 2
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
        with client, socket.create_connection(("127.0.0.1", target.port)) as server:
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
                if answer and answer[16:17] != b"r":
                    PROBLEMS.append("a greeting that was heard is taken again")
        except OSError:
            pass


GREETINGS = {}  # by port
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
    """A coordinator that serves 4 processes, or more than once with --keep."""

    def __init__(self, arguments, name, options=()):
        self.name, self.arguments = name, arguments
        self.environment = {**os.environ, "LOCKSTEP_JOB_SECRET": SECRET}
        self.process = subprocess.Popen(
            [arguments.launcher, "coordinator", "--num-processes", "4", "--keep", *options],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address = self.process.stdout.readline().split()[-1]
        self.port = int(self.address.rsplit(":", 1)[1])
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def memory(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            fields = dict(line.split(":", 1) for line in file)
        return int(fields["VmHWM"].split()[0])

    def forget_peak(self):
        with open(f"/proc/{self.process.pid}/clear_refs", "w") as file:
            file.write("5")

    def cpu(self):
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def start_job(self):
        """Four processes join, write and read keys, and leave; the seconds that it takes."""
        began = time.monotonic()
        processes = [subprocess.Popen([self.arguments.program, self.address, "4", str(i)], env=self.environment,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for i in range(4)]
        for process in processes:
            output, _ = process.communicate(timeout=120)
            assert process.returncode == 0, f"{self.name}: a process of the job failed beside strangers:\n{output}"
        return time.monotonic() - began

    def end(self):
        self.process.terminate()
        self.process.wait()


def measure(target, attack):
    target.forget_peak()
    memory, cpu, descriptors = target.memory(), target.cpu(), target.descriptors()
    until = time.monotonic() + SECONDS
    thread = threading.Thread(target=attack, args=[target.port, until])
    thread.start()
    most = 0
    while time.monotonic() < until:
        most = max(most, target.descriptors())
        time.sleep(0.02)
    thread.join()
    return {"memory": target.memory() - memory, "cpu": target.cpu() - cpu, "descriptors": most - descriptors}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("launcher", type=os.path.abspath)
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("--page", default=os.path.join(os.path.dirname(__file__), "../../docs/coordination.md"))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    targets = [Target(arguments, "with a secret"), Target(arguments, "with --allow-jax", ["--allow-jax"])]
    failures, rows = 0, []
    for target in targets:
        target.start_job()
        GREETINGS[target.port] = greeting_of_a_process(target)
    for name, attack in STRANGERS.items():
        if arguments.only and arguments.only not in name:
            continue
        cells = [name]
        for target in targets:
            cost = measure(target, attack)
            stop = time.monotonic() + SECONDS
            thread = threading.Thread(target=attack, args=[target.port, stop])
            thread.start()
            seconds = target.start_job()
            thread.join()
            print(f"{name}, {target.name}: {cost['memory']} KiB, {cost['cpu']:.2f} s of CPU in {SECONDS} s, "
                  f"{cost['descriptors']} descriptors; a job beside it took {seconds:.2f} s", flush=True)
            # Where JAX is let in, gRPC serves up to 256 of them at a time, of 64 KiB and what that becomes.
            most = (256 if "jax" in target.name else 8) * KIB
            if cost["memory"] > most or cost["descriptors"] > 600:
                failures += 1
                print(f"{name}, {target.name}: more than a stranger may cost", flush=True)
            cells += [f"{max(cost['memory'], 0) / KIB:.1f} MiB", f"{100 * cost['cpu'] / SECONDS:.0f} %",
                      str(max(cost["descriptors"], 0)), f"{seconds:.2f} s"]
        rows.append(cells)
    for target in targets:
        assert target.process.poll() is None, f"{target.name} has ended"
        target.end()
    header = ["strangers", *(f"{what}" for target in ("", ", `--allow-jax`")
                             for what in (f"memory{target}", f"CPU{target}", f"descriptors{target}", f"job{target}"))]
    if arguments.write:
        write_table(arguments.page, "strangers", header, rows)
    elif not arguments.only:  # figures vary
        failures += compare_table(arguments.page, "strangers", header, [[row[0], *[None] * 8] for row in rows])
    for problem in PROBLEMS[:3]:
        print(problem)
    sys.exit(1 if failures or PROBLEMS else 0)


if __name__ == "__main__":
    main()
