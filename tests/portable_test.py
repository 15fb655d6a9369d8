#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A pack of scripts/portable runs where only the C library is: two processes compute in such a root folder.

    tests/portable_test.py SOURCE BUILD      exits with 77 where no root folder can be made, or patchelf is missing
"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
source, build = Path(sys.argv[1]), Path(sys.argv[2])
C_LIBRARY = ("ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6", "libmvec.so.1", "libdl.so.2", "libpthread.so.0", "librt.so.1",
             "libresolv.so.2", "libnss_files.so.2", "libutil.so.1")
FOLDERS = ("/lib64", "/lib/x86_64-linux-gnu", "/usr/lib64")
# Within a mount namespace: a root folder with the pack and the C library, and what the kernel offers.
ENTER = """set -e
root=$1; shift
mount --bind "$root" "$root"
for each in proc dev sys; do mkdir -p "$root/$each"; mount --rbind "/$each" "$root/$each"; done
exec chroot "$root" "$@"
"""


def main():
    if os.geteuid() != 0 or shutil.which("patchelf") is None:
        print("needs the superuser, who can change the root folder, and patchelf")
        return SKIPPED
    with tempfile.TemporaryDirectory(dir=build) as place:
        archive, root = Path(place) / "lockstep-pack.tar.gz", Path(place) / "root"
        pack = [source / "scripts" / "portable", "--build", build, archive, build / "examples" / "psum"]
        subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
        again = subprocess.run(pack, capture_output=True, text=True)
        if again.returncode == 0 or "is there already" not in again.stderr:
            sys.exit(f"it wrote over an archive: {again.stderr}")
        (root / "opt").mkdir(parents=True)
        (root / "tmp").mkdir()
        subprocess.run(["tar", "-xf", archive, "-C", root / "opt"], check=True)
        for path in C_LIBRARY:
            found = next((folder / path for folder in map(Path, FOLDERS) if (folder / path).exists()), None)
            if found is not None:
                (root / str(found)[1:]).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(found, root / str(found)[1:])
        done = subprocess.run(["unshare", "--mount", "sh", "-c", ENTER, "sh", root, "/opt/lockstep-pack/bin/lockstep", "run",
                               "-n", "2", "--", "/opt/lockstep-pack/bin/psum"], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, env={"HOME": "/tmp", "LOCKSTEP_TRUST": "everyone"}, timeout=120)
        print(done.stdout, done.stderr)
        if "unshare failed" in done.stderr:
            return SKIPPED
        # Nothing of this machine was used but the C library.
        if done.returncode != 0 or "[1] process 1: psum gives 2\n" not in done.stdout:
            sys.exit(f"the pack did not run: status {done.returncode}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
