#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/edges.json.gz: what JAX gives at the edges of each dtype: NaN, infinities, zeros, the smallest
and the largest numbers, 1 and its neighbours, the ends of integers, poles, kinks and branch points; for rows that are
empty, of one element, with ties. edges_test.cc compares.

Run it with JAX at the version below (it is checked); it takes some ten minutes:
    python3 -m venv v && v/bin/pip install jax==0.10.2 jaxlib==0.10.2 && v/bin/python tests/golden/edges.py
A file for each function and dtype is kept in the folder that LOCKSTEP_EDGES_CACHE names, for a run that adds to it.

For each function and dtype: "v" the values; "j" the derivatives forwards, "r" backwards, "jj" and "rr" those of these.
Numbers are the bits of the elements in hexadecimal digits, "n" is NaN; of complex numbers the parts in turn. "=" stands
for what the part before it has.
"""

import gzip
import json
import os
import pathlib
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np

import edge_functions
from family import check_versions

VERSIONS = {"jax": "0.10.2", "jaxlib": "0.10.2"}
FLOATS = ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"]
COMPLEX = ["complex64", "complex128"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES = ["bool"] + FLOATS + COMPLEX + INTEGERS
PARTS = ("j", "r", "jj", "rr")
WIDE = ("int64", "uint64", "float64", "complex128")


def is_inexact(name):
    return name in FLOATS or name in COMPLEX


def bits(x):
    """The elements' bits, "n" for NaN."""
    flat = np.array(x).reshape(-1)
    if flat.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    whole = flat.view(np.uint8) if flat.dtype == bool else flat.view(f"u{flat.dtype.itemsize}")
    nan = np.isnan(flat.astype(np.float64)) if flat.dtype.kind in "fV" else np.zeros(flat.shape, bool)
    return " ".join("n" if is_nan else format(int(w), "x") for w, is_nan in zip(whole, nan))


def floating_edges(name):
    """NaN, infinities, zeros, the smallest and the largest numbers, 1 and its neighbours, kinks and poles."""
    f = jnp.finfo(name)
    ulp = float(f.eps)
    sizes = [0.0, float(f.smallest_subnormal), float(f.tiny), 0.5, 1 - ulp / 2, 1.0, 1 + ulp, 2.0, 2.5, 3.0, 6.0, 100.0,
             float(f.max), np.inf]
    values = [s for size in sizes for s in (size, -size)] + [np.nan]
    return np.array(values).astype(name)


def pairs(name):
    """Of functions of two operands, each with each."""
    if name in FLOATS:
        f = jnp.finfo(name)
        some = [0.0, -0.0, float(f.smallest_subnormal), float(f.tiny), 0.5, 1.0, -1.0, 2.0, -2.5, 3.0, -3.0, float(f.max),
                -float(f.max), np.inf, -np.inf, np.nan]
        some = np.array(some).astype(name)
    elif name in COMPLEX:
        some = np.array([0, 1, -1, 1j, -2.5 + 0.5j, complex(np.inf, 0), complex(0, -np.inf), complex(np.nan, 1),
                         complex(-0.0, -0.0), 1e30 + 1e30j]).astype(name)
    else:
        some = edges(name)
    x, y = np.meshgrid(some, some, indexing="ij")
    return x.reshape(-1), y.reshape(-1)


def edges(name):
    if name == "bool":
        return np.array([False, True])
    if name in INTEGERS:
        info = np.iinfo(name)
        values = {info.min, info.min + 1, 0, 1, 2, 3, 6, 7, info.max - 1, info.max} | ({-1, -2, -3, -7} if info.min else set())
        return np.array(sorted(values), name)
    if name in FLOATS:
        return floating_edges(name)
    f = jnp.finfo(name)
    some = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]
    more = [0.5, 2, -2, 2j, -2j, 0.5j, 1 + 1j, -1 - 1j, 3 - 4j, -0.5 + 0.25j, complex(float(f.max), float(f.max)),
            complex(float(f.tiny), float(f.tiny)), complex(1e10, 1e-10), complex(-1e10, 1e-10), 100 + 3j, -100 + 3j]
    return np.array([complex(a, b) for a in some for b in some] + more).astype(name)


def rows(name):
    """Rows of four: ties, NaN at either end, infinities, zeros of both signs, the ends."""
    if name == "bool":
        return np.array([[0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 1], [1, 0, 0, 0]], bool)
    if name in INTEGERS:
        info = np.iinfo(name)
        low, high = info.min, info.max
        minus = -1 if low else 1
        return np.array([[0, 0, 0, 0], [2, 1, 2, 1], [high, high, 1, 2], [low, low, low, 3], [low, high, low, high],
                         [3, minus, 2, 0], [high, 0, low, 1]], name)
    if name in FLOATS:
        f = jnp.finfo(name)
        high, tiny, least = float(f.max), float(f.tiny), float(f.smallest_subnormal)
        inf, nan = np.inf, np.nan
        values = [[0, 0, 0, 0], [0.0, -0.0, 0.0, -0.0], [-0.0, -0.0, -0.0, -0.0], [2, 1, 2, 1], [nan, 1, 2, 1], [1, 2, 0, nan],
                  [nan, nan, nan, nan], [inf, 1, 2, inf], [-inf, 1, -inf, 2], [inf, -inf, 1, 0], [-inf, -inf, -inf, -inf],
                  [nan, inf, -inf, 0], [high, high, 1, -high], [tiny, tiny, -tiny, tiny], [least, least, 0, -least],
                  [1, -2, 3, -4], [0, 3, 0, 2], [0.5, 0.5, -0.5, 1]]
        return np.array(values).astype(name)
    inf, nan = np.inf, np.nan
    values = [[0, 0, 0, 0], [1 + 1j, 1 - 1j, 1 + 1j, 1 - 1j], [3 - 4j, 2, 1j, -1 + 2j], [nan, 1, 2j, 1], [complex(0, nan), 1, 2, 3j],
              [inf, 1, 2, 1j], [complex(0, inf), 1, 2, 1j], [0, 2 + 1j, 0, -1j], [complex(-0.0, -0.0), 0, 1, 1]]
    return np.array(values).astype(name)


def few(name, columns):
    """Rows of one element, or of none."""
    x = rows(name)
    return x[:, :1] if columns else x[:2, :0]


def directions(x):
    """Tangents of rows: 1, 2, 3, … of each."""
    steps = np.broadcast_to(np.arange(x.shape[-1]) % 4 + 1, x.shape) if x.ndim == 2 else np.ones(x.shape)
    return jnp.asarray(steps.astype(x.dtype))


def flat(results):
    return list(results) if isinstance(results, (tuple, list)) else [results]


def derivatives(f, operands):
    """Forwards and backwards, and those of these, by each operand with the others as they are."""
    out = {"j": [], "r": [], "jj": [], "rr": []}
    tangents = [directions(x) for x in operands]
    for i in range(len(operands)):
        def along(x, i=i):
            return [y for y in flat(f(*operands[:i], x, *operands[i + 1:])) if jnp.issubdtype(y.dtype, jnp.inexact)]

        def forwards(x, i=i):
            return jax.jvp(along, (x,), (tangents[i],))[1]

        def backwards(x):
            values, pull = jax.vjp(along, x)
            return pull([jnp.ones_like(y) for y in values])[0]

        out["j"] += forwards(operands[i])
        out["r"].append(backwards(operands[i]))
        if operands[i].ndim == 1:
            out["jj"] += jax.jvp(forwards, (operands[i],), (tangents[i],))[1]
            pulled, pull = jax.vjp(backwards, operands[i])
            out["rr"].append(pull(jnp.ones_like(pulled))[0])
    return out


def has_derivatives(f, operands):
    return jnp.issubdtype(operands[0].dtype, jnp.inexact) and operands[0].dtype.itemsize > 1 and any(
        jnp.issubdtype(y.dtype, jnp.inexact) for y in flat(jax.eval_shape(f, *operands)))


def stored(f, operands, differentiated):
    """None where JAX has no answer."""
    try:
        values = jax.jit(f)(*operands)
    except Exception as error:  # JAX's refusals are of many types
        return None, str(error).split("\n")[0]
    arrays = flat(values)
    out = {"t": [str(y.dtype) for y in arrays], "s": [list(y.shape) for y in arrays], "v": [bits(y) for y in arrays]}
    if differentiated and operands[0].size and has_derivatives(f, operands):
        try:
            parts = jax.jit(lambda *xs: derivatives(f, xs))(*operands)
            out |= {key: [bits(y) for y in part] for key, part in parts.items() if part}
        except Exception as error:
            return out, str(error).split("\n")[0]
    before = None
    for key in PARTS:
        if key in out and out[key] == before:
            out[key] = "="
        elif key in out:
            before = out[key]
    return out, None


INPUTS = {"x": lambda name: [edges(name)], "xy": lambda name: list(pairs(name)), "rows": lambda name: [rows(name)],
          "one": lambda name: [few(name, True)], "none": lambda name: [few(name, False)]}


def main():
    check_versions(VERSIONS)
    cache = os.environ.get("LOCKSTEP_EDGES_CACHE")
    only = sys.argv[1:]
    functions = edge_functions.functions()
    inputs, cases = {}, {}
    for dtype in DTYPES:
        with jax.enable_x64(dtype in WIDE), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            given = {kind: make(dtype) for kind, make in INPUTS.items()}
            inputs[dtype] = {kind: {"s": [list(x.shape) for x in xs], "v": [bits(x) for x in xs]} for kind, xs in given.items()}
            for name, (kinds, f, differentiated) in functions.items():
                # JAX's loop does not end for the least integers.
                if (only and name not in only) or (name in ("gcd", "lcm") and dtype.startswith("int")):
                    continue
                for kind in kinds:
                    path = cache and pathlib.Path(cache) / f"{name}@{kind}@{dtype}.json".replace("/", "_")
                    if path and path.exists():
                        entry, error = json.loads(path.read_text())
                    else:
                        entry, error = stored(f, [jnp.asarray(x) for x in given[kind]], differentiated and kind != "none")
                        if path:
                            path.write_text(json.dumps([entry, error]))
                    if error:
                        print(name, kind, dtype, error[:150], file=sys.stderr)
                    if entry:
                        cases.setdefault(name, {}).setdefault(kind, {})[dtype] = entry
    text = json.dumps({"inputs": inputs, "cases": cases}, separators=(",", ":"))
    out = pathlib.Path(__file__).with_name("edges.json.gz")
    out.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(len(text), out.stat().st_size)


if __name__ == "__main__":
    main()
