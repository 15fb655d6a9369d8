# SPDX-License-Identifier: Apache-2.0
"""What operations give of each dtype, and in which dtype two meet. generate.py calls `dtypes` and `promotion`."""

import contextlib
import warnings

import jax
import jax.numpy as jnp
import numpy as np

NAMES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
         "float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"]
WIDE = ("int64", "uint64", "float64", "complex128")
X, Y = [[1, 2, -3], [4, 5, 7]], [[2, 3, 1], [-4, 2, 6]]

SHARED = {
    "add": jnp.add, "multiply": jnp.multiply, "equal": jnp.equal, "where": lambda x, y: jnp.where(x == y, x, y),
    "sum": lambda x, y: x.sum(), "prod": lambda x, y: x.prod(axis=1), "mean": lambda x, y: x.mean(axis=0),
    "transpose": lambda x, y: x.T, "cumsum": lambda x, y: jnp.cumsum(x, axis=1),
    "take": lambda x, y: jnp.take(x, jnp.array([2, 0]), axis=1),
}
ORDERED = {
    "maximum": jnp.maximum, "less": jnp.less, "max": lambda x, y: x.max(axis=0), "min": lambda x, y: x.min(),
    "argmax": lambda x, y: x.argmax(axis=1), "sort": lambda x, y: jnp.sort(x),
}
NUMBERS = {
    "matmul": lambda x, y: x @ y.T,
    "subtract": jnp.subtract, "divide": jnp.divide, "negative": lambda x, y: -x, "abs": lambda x, y: jnp.abs(x),
    "square": lambda x, y: jnp.square(x), "power(2)": lambda x, y: x**2, "sqrt": lambda x, y: jnp.sqrt(x * x),
    "exp": lambda x, y: jnp.exp(x / 4), "weak int": lambda x, y: x + 3, "weak float": lambda x, y: x * 0.5,
}
REALS = {"floor_divide": jnp.floor_divide, "remainder": jnp.remainder, "clip": lambda x, y: jnp.clip(x, 2, 4)}
WHOLE = {
    "bitwise_and": jnp.bitwise_and, "bitwise_xor": jnp.bitwise_xor, "left_shift": lambda x, y: x << 2,
    "right_shift": lambda x, y: x >> 1, "bitwise_not": lambda x, y: ~x,
}
FLOATING = {
    "sin": lambda x, y: jnp.sin(x), "tanh": lambda x, y: jnp.tanh(x), "log1p": lambda x, y: jnp.log1p(jnp.abs(x)),
    "var": lambda x, y: x.var(axis=1), "floor": lambda x, y: jnp.floor(x / 4), "round": lambda x, y: jnp.round(x / 4),
    "logsumexp": lambda x, y: jax.scipy.special.logsumexp(x), "erf": lambda x, y: jax.scipy.special.erf(x / 4),
}
COMPLEX = {
    "real": lambda x, y: x.real, "imag": lambda x, y: x.imag, "conj": lambda x, y: x.conj(), "log": lambda x, y: jnp.log(x),
    "sin": lambda x, y: jnp.sin(x / 4), "tanh": lambda x, y: jnp.tanh(x / 4),
}
LOGIC = {"any": lambda x, y: x.any(axis=1), "all": lambda x, y: x.all(axis=0)}


def wide(name):
    """64-bit dtypes are JAX's with them enabled, the others JAX's as it starts."""
    return jax.enable_x64(True) if name in WIDE else contextlib.nullcontext()


def dtypes(stored):
    out = {}
    for name in NAMES:
        kind = "b" if name == "bool" else "c" if name.startswith("complex") else name[0].replace("b", "f")
        x, y = np.array(X), np.array(Y)
        if kind in "ub":
            x, y = abs(x) % (2 if kind == "b" else 99), abs(y) % (2 if kind == "b" else 99)
        if kind == "c":
            x, y = x + 0.5j * y, y - 0.25j * x
        functions = SHARED | LOGIC
        functions |= {"c": COMPLEX | NUMBERS, "b": ORDERED}.get(kind, NUMBERS | ORDERED | REALS)
        functions |= FLOATING if kind == "f" else WHOLE if kind in "iu" else {}
        if name == "float8_e4m3fn":  # Its -inf, with which JAX starts, is a NaN.
            del functions["logsumexp"]
        with wide(name), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            a, b = jnp.asarray(x, name), jnp.asarray(y, name)
            results = {}
            for f, g in functions.items():
                try:
                    results[f] = stored(g(a, b))
                except Exception:  # JAX itself has no such function of 8 bits
                    assert name.startswith("float8"), (name, f)
            if kind != "c":
                for other in NAMES:
                    if other in WIDE and not jax.config.jax_enable_x64:
                        continue
                    results["astype(" + other + ")"] = stored(jnp.abs(a).astype(other) if kind != "b" else a.astype(other))
            out[name] = {"x": stored(a), "y": stored(b), "results": results}
    return out


def promotion():
    """The dtype of a sum of each pair; of each and a Python int, and a float. 64-bit dtypes are enabled."""
    with jax.enable_x64(True):
        each = {name: jnp.zeros((1,), name) for name in NAMES}

        def result(a, b):
            try:
                return str(jnp.result_type(a, b))
            except jax.dtypes.TypePromotionError:
                return None

        return {"names": NAMES, "pairs": [[result(a, b) for b in each.values()] for a in each.values()],
                "int": [result(a, 1) for a in each.values()], "float": [result(a, 1.0) for a in each.values()]}
