# SPDX-License-Identifier: Apache-2.0
"""What the scripts beside it share: the numbers that the tests make, too, and the files of named arrays (stored.cc)."""

import importlib.metadata
import json
import pathlib

import jax.numpy as jnp
import numpy as np

OUT = {}


def check_versions(versions):
    for package, version in versions.items():
        found = importlib.metadata.version(package)
        assert found == version, f"{package} is {found}, and {version} is needed"


def numbers(shape, seed):
    """Small numbers that a float32 holds; golden::numbers makes the same."""
    i = np.arange(np.prod(shape, dtype=int))
    return jnp.asarray((((i * 7 + seed * 5) % 13 - 6) / 8).reshape(shape).astype(np.float32))


def put(name, array):
    a = np.asarray(array)
    values = a.astype(np.float64).ravel()
    OUT[name] = {"shape": list(a.shape), "dtype": str(a.dtype),
                 "values": [float(v) if np.isfinite(v) else str(v) for v in values]}


def write(file):
    """The arrays of all calls of `put`."""
    lines = [json.dumps(name) + ": " + json.dumps(entry, separators=(",", ":")) for name, entry in OUT.items()]
    (pathlib.Path(__file__).parent / file).write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(len(OUT), "arrays")
