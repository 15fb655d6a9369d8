# SPDX-License-Identifier: Apache-2.0
"""The interpreter of a virtual environment with the JAX that the tests are for."""

import fcntl
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PINNED = ["jax==0.10.2", "jaxlib==0.10.2"]


def is_made(folder):
    """Whether it is a folder of this repository's own, not a link to somebody else's, with the JAX that is pinned."""
    stamp = folder / "pinned"
    return not folder.is_symlink() and stamp.exists() and stamp.read_text().split() == PINNED


def make(folder):
    """Makes it anew. What a link led to stays as it is: `venv --clear` would empty it."""
    if folder.is_symlink():
        folder.unlink()
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    subprocess.run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--retries", "2",
                    "--disable-pip-version-check", *PINNED], check=True)
    (folder / "pinned").write_text("\n".join(PINNED))


def jax_python():
    """Its path; made in build/jax/venv where neither that nor benchmarks/compare_jax's is there. May be called by
    several processes at once. Raises CalledProcessError where it cannot be made, as without the package index."""
    own, of_benchmarks = ROOT / "build" / "jax" / "venv", ROOT / "build" / "compare_jax" / "venv"
    own.parent.mkdir(parents=True, exist_ok=True)
    with open(own.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_made(own) and is_made(of_benchmarks):
            return str(of_benchmarks / "bin" / "python")
        if not is_made(own):
            make(own)
    return str(own / "bin" / "python")


if __name__ == "__main__":
    print(jax_python())
