#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/exports.json.gz: functions that jax.export wrote, with JAX's results for them, which
exports_test.cc compares; and functions that import_jax_export refuses, with words of its message.

Run it with JAX, flax and optax at the versions below (they are checked):
    python3 -m venv v && v/bin/pip install jax==0.10.2 jaxlib==0.10.2 flax==0.12.8 optax==0.2.8 && v/bin/python tests/golden/exports.py

Each case has "export", the bytes of the file as hexadecimal digits; "arguments" and "results"; "near" where the results need not be
as near as the others; "refused" in the place of results.
"""

import gzip
import json
import pathlib
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
import optax
from jax import export, lax

from family import check_versions, numbers

VERSIONS = {"jax": "0.10.2", "jaxlib": "0.10.2", "flax": "0.12.8", "optax": "0.2.8"}
OUT = {}


def stored(x):
    x = np.asarray(x)
    flat = x.ravel()
    parts = flat.view(flat.real.dtype) if x.dtype.kind == "c" else flat
    if parts.dtype.kind == "V" or parts.dtype.itemsize < 4:
        parts = parts.astype(parts.dtype if parts.dtype.kind in "iub" else np.float32)
    values = [int(v) if parts.dtype.kind in "iub" else float(str(v)) if np.isfinite(v) else str(v) for v in parts]
    return {"dtype": str(x.dtype), "shape": list(x.shape), "values": values}


def exported(f, arguments):
    shapes = [jax.ShapeDtypeStruct(np.shape(x), x.dtype) for x in arguments]
    return export.export(jax.jit(f))(*shapes).serialize().hex()


def case(name, f, *arguments, near=None, x64=False):
    assert name not in OUT, name
    leaves, tree = jax.tree.flatten(jax.tree.map(np.asarray, arguments))
    flat = lambda *leaves: jax.tree.leaves(f(*tree.unflatten(leaves)))
    with jax.enable_x64(x64):
        OUT[name] = {"export": exported(flat, leaves), "arguments": [stored(x) for x in leaves],
                     "results": [stored(x) for x in jax.jit(flat)(*leaves)]}
    if near is not None:
        OUT[name]["near"] = near


def refused(name, words, f, *arguments):
    assert name not in OUT, name
    OUT[name] = {"export": exported(f, arguments),
                 "arguments": [{"dtype": str(x.dtype), "shape": list(x.shape)} for x in arguments], "refused": words}


X = np.asarray(numbers((4, 6), 0))
Y = np.asarray(numbers((4, 6), 3))
V = np.asarray(numbers((9,), 1))
POSITIVE = np.abs(X) + np.float32(0.25)
INTS = np.array([[5, -3, 0, 7], [2, 5, -8, 1], [5, 5, 100, -100]], np.int32)
MATRIX = np.asarray(numbers((5, 5), 2)) + 3 * np.eye(5, dtype=np.float32)
SYMMETRIC = (MATRIX + MATRIX.T) / 2 + np.diag(np.arange(5)).astype(np.float32)
DEFINITE = (MATRIX @ MATRIX.T).astype(np.float32)
TALL = np.asarray(numbers((6, 4), 5)) + 2 * np.eye(6, 4, dtype=np.float32)
IMAGE = np.asarray(numbers((2, 6, 6, 3), 1))
EDGES = np.array([0.0, -0.0, 1.5, np.nan, -np.inf, np.inf, -2.0, 0.5], np.float32)
TIES = np.array([[2, 1, 2, 1, 1, 2], [0, 0, 1, 1, 0, 0]], np.int32)


def models():
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.Conv(4, (3, 3))(x))
            x = nn.max_pool(x, (2, 2), strides=(2, 2))
            x = nn.relu(nn.Conv(6, (3, 3))(x))
            x = nn.avg_pool(x, (2, 2), strides=(1, 1))
            return nn.Dense(5)(x.reshape(x.shape[0], -1))

    def training(model, inputs, optimizer, loss):
        params = jax.eval_shape(model.init, jax.random.key(0), inputs)
        params = jax.tree.map(lambda p: np.asarray(numbers(p.shape, p.ndim)) / 2, params)

        def step(params, state, inputs, labels):
            value, gradient = jax.value_and_grad(lambda p: loss(model.apply(p, inputs), labels))(params)
            updates, state = optimizer.update(gradient, state, params)
            return value, optax.apply_updates(params, updates), state

        return step, params, optimizer.init(params)

    labels = np.array([3, 1], np.int32)
    cross_entropy = lambda logits, y: optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()
    step, params, state = training(Net(), IMAGE, optax.sgd(0.1, momentum=0.9), cross_entropy)
    case("training step of a CNN", step, params, state, IMAGE, labels)

    class Normed(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.LayerNorm()(nn.gelu(nn.Dense(8)(x)))
            return nn.Dense(3)(nn.GroupNorm(2)(x))

    step, params, state = training(Normed(), X, optax.adamw(1e-2), lambda y, t: jnp.mean((y - t) ** 2))
    case("training step of an MLP with norms and AdamW", step, params, state, X, np.asarray(numbers((4, 3), 7)), near=1e-4)

    class Attention(nn.Module):
        @nn.compact
        def __call__(self, x):
            mask = nn.make_causal_mask(jnp.ones(x.shape[:2]))
            return x + nn.MultiHeadDotProductAttention(2)(nn.LayerNorm()(x), mask=mask)

    sequence = np.asarray(numbers((2, 5, 8), 4))
    step, params, state = training(Attention(), sequence, optax.sgd(0.1), lambda y, t: jnp.mean((y - t) ** 2))
    case("training step of attention", step, params, state, sequence, np.asarray(numbers((2, 5, 8), 8)))

    class Recurrent(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.RNN(nn.LSTMCell(4))(x)

    step, params, state = training(Recurrent(), sequence, optax.rmsprop(1e-2), lambda y, t: jnp.mean(jnp.abs(y - t)))
    case("training step of an LSTM", step, params, state, sequence, np.asarray(numbers((2, 5, 4), 8)), near=1e-4)

    batch_norm = nn.BatchNorm(use_running_average=False)
    variables = jax.tree.map(np.asarray, batch_norm.init(jax.random.key(0), X))
    case("batch norm in training", lambda v, x: batch_norm.apply(v, x, mutable=["batch_stats"]), variables, X)
    case("embedding and dropout", lambda table, i, key: nn.Dropout(0.5, deterministic=False).apply(
        {}, table[i], rngs={"dropout": jax.random.wrap_key_data(key)}), X, np.array([3, 0, 3], np.int32),
        np.array([0, 7], np.uint32))
    case("transposed convolution", lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), IMAGE, numbers((3, 3, 3, 2), 1))
    case("gradient of a dilated and grouped convolution", jax.grad(lambda x, w: jnp.sum(lax.conv_general_dilated(
        x, w, (2, 1), ((1, 2), (0, 1)), rhs_dilation=(2, 1), feature_group_count=3,
        dimension_numbers=("NHWC", "HWIO", "NHWC")) ** 2), argnums=(0, 1)), IMAGE, numbers((2, 3, 1, 6), 1))


def windows():
    pool = lambda **o: lambda x: nn.max_pool(x, **o)
    gradient = lambda f: jax.grad(lambda x: jnp.sum(f(x) * jnp.cos(jnp.arange(f(x).size)).reshape(f(x).shape)))
    case("gradient of max_pool", gradient(pool(window_shape=(2, 2), strides=(2, 2))), IMAGE)
    case("gradient of max_pool with overlap and padding",
         gradient(pool(window_shape=(3, 3), strides=(2, 2), padding="SAME")), IMAGE)
    case("gradient of max_pool at ties", gradient(pool(window_shape=(2, 3), strides=(1, 1))), np.round(IMAGE))
    case("gradient of max_pool with NaN", gradient(pool(window_shape=(2, 2), strides=(1, 1))), np.where(IMAGE == 0, np.nan, IMAGE))
    case("gradient of a smallest of windows", gradient(lambda x: lax.reduce_window(x, jnp.inf, lax.min, (2, 3), (1, 2), "SAME")), X)
    case("second derivative through max_pool", jax.grad(lambda x: jnp.sum(jax.grad(
        lambda x: jnp.sum(nn.max_pool(x, (2, 2)) ** 3))(x) ** 2)), IMAGE)
    case("gradient of avg_pool", gradient(lambda x: nn.avg_pool(x, (3, 3), strides=(2, 2), padding="SAME")), IMAGE)
    case("product of windows", lambda x: lax.reduce_window(x, 1.0, lax.mul, (2, 3), (1, 2), "VALID"), X)
    case("largest of windows of integers from a start", lambda x: lax.reduce_window(x, 2, lax.max, (2, 2), (1, 1), "SAME"), INTS)
    case("windows with dilations", lambda x: (
        lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 2), ((1, 0), (0, 2)), (2, 1), (1, 3)),
        lax.reduce_window(x, 1.0, lax.mul, (2, 2), (1, 2), ((1, 0), (0, 2)), (2, 1), (1, 3))), X)
    case("windows by a function of one's own", lambda x: lax.reduce_window(
        x, 0.0, lambda a, b: a + b + a * b, (3, 5), (1, 1), "SAME"), X)
    case("windows of two arrays by a function of one's own", lambda x, y: lax.reduce_window(
        (x, y), (0.0, 1.0), lambda a, b: (a[0] + b[0], a[1] * b[1]), (2, 2), (2, 1), "VALID"), X, Y)
    case("bits of windows", lambda x: (lax.reduce_window(x, 0, lax.bitwise_or, (2, 3), (1, 1), "VALID"),
                                       lax.reduce_window(x > 0, True, lax.bitwise_and, (2, 2), (1, 1), "SAME")), INTS)
    case("patches of an image", lambda x: lax.conv_general_dilated_patches(x, (2, 2), (1, 1), "VALID"), IMAGE)


def running():
    for name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"):
        f = getattr(lax, name)
        case(name, lambda x: (f(x, axis=0), f(x, axis=1, reverse=True)), X)
        case(f"gradient of {name}", jax.grad(lambda x: jnp.sum(f(x, axis=1) ** 2)), X)
    case("cumprod of integers", lambda x: (jnp.cumprod(x, axis=1), jnp.cumsum(x, axis=0)), INTS)
    case("associative_scan by a function of one's own",
         lambda a, b: lax.associative_scan(lambda l, r: (l[0] * r[0], r[0] * l[1] + r[1]), (a, b)), X, Y)
    case("nancumsum and trapezoid", lambda x: (jnp.nancumsum(x), jnp.trapezoid(x), jnp.diff(x, 2)), EDGES)


def reductions():
    case("reductions", lambda x: (x.sum(0), x.prod(1), x.max(), x.min(0), (x > 0).any(1), (x > -1).all()), X)
    case("reductions of integers", lambda x: (x.sum(0), x.prod(1), x.max(), x.min(0), jnp.argmax(x, 1), jnp.argmin(x)), INTS)
    case("reductions of bits", lambda x: (lax.reduce(x, np.int32(0), lax.bitwise_or, (0,)),
                                          lax.reduce(x, np.int32(-1), lax.bitwise_and, (1,)),
                                          lax.reduce(x, np.int32(0), lax.bitwise_xor, (0, 1))), INTS)
    case("reduction by a function of one's own", lambda x: lax.reduce(x, 0.0, lambda a, b: a + b + a * b, (0,)), X)
    case("reduction of two arrays by a function of one's own", lambda x, y: lax.reduce(
        (x, y), (0.0, -jnp.inf), lambda a, b: (a[0] + b[0], jnp.maximum(a[1], b[1])), (0, 1)), X, Y)
    case("argmax and argmin with NaN and ties", lambda x: (jnp.argmax(x), jnp.argmin(x), jnp.nanargmax(x), jnp.argmax(jnp.sign(x))), EDGES)
    case("statistics", lambda x: (x.mean(0), x.std(1), jnp.var(x), jnp.median(x), jnp.quantile(x, 0.3, axis=1),
                                  jnp.cov(x), jnp.corrcoef(x), jnp.ptp(x, 0)), X)
    case("statistics of NaN", lambda x: (jnp.nanmean(x), jnp.nanmax(x), jnp.nanvar(x[:2]), jnp.nanmedian(x)), EDGES)
    case("logsumexp and softmax", lambda x: (jsp.special.logsumexp(x, 1), jax.nn.softmax(x), jax.nn.log_softmax(x, 0)), X)
    case("norms", lambda x: (jnp.linalg.norm(x), jnp.linalg.norm(x, axis=1), jnp.linalg.norm(x, 1), jnp.linalg.norm(x, jnp.inf)), X)


def searches():
    queries = np.array([-0.6, 0.0, -0.0, 0.3, np.nan, np.inf, -np.inf, 0.25], np.float32)
    table = np.sort(V)
    for method in ("scan", "scan_unrolled", "sort", "compare_all"):
        case(f"searchsorted by {method}", lambda t, q: (jnp.searchsorted(t, q, method=method),
                                                        jnp.searchsorted(t, q, side="right", method=method)), table, queries)
    case("digitize", lambda t, q: jnp.digitize(q, t), np.unique(table), queries[:4])
    case("interp", lambda t, q, y: jnp.interp(q, t, y), np.unique(table), queries[:4], np.unique(table) ** 2)
    case("gradient of interp", lambda t, q, y: jax.grad(lambda y: jnp.sum(jnp.interp(q, t, y) ** 2))(y), np.unique(table),
         queries[:4], np.unique(table) ** 2)
    case("histogram", lambda x: (jnp.histogram(x, 5), jnp.histogram(x, 4, (-0.5, 0.5))), X)
    case("histogram2d", lambda x, y: jnp.histogram2d(x, y, 3), X.ravel(), Y.ravel())
    case("bincount", lambda i: jnp.bincount(i.ravel(), length=4), TIES)
    case("unique of a known size", lambda x: jnp.unique(x, size=5, return_counts=True, return_inverse=True), INTS)
    case("nonzero and where of a known size", lambda x: (jnp.nonzero(x > 0, size=20, fill_value=-1), jnp.argwhere(x > 0.2, size=6)), X)
    case("isin and intersect1d", lambda x: (jnp.isin(x, jnp.array([5, 1])), jnp.intersect1d(x, jnp.array([5, 1, 9]), size=4, fill_value=-7)), INTS)


def sorts():
    case("sort", lambda x: (jnp.sort(x, 0), jnp.sort(x, 1), jnp.argsort(x, 1)), X)
    case("sort of NaN and zeros", lambda x: (jnp.sort(x), jnp.argsort(x), jnp.sort(x, descending=True)), EDGES)
    case("descending sorts", lambda x: (jnp.sort(x, descending=True), jnp.argsort(x, descending=True, stable=True),
                                        jnp.argsort(x, descending=True, stable=False)), INTS)
    case("sort by two keys", lambda a, b: lax.sort((a, b, jnp.arange(12).reshape(2, 6)), dimension=1, num_keys=2), TIES, np.asarray(numbers((2, 6), 4)))
    case("sort by three keys along rows", lambda a, b: lax.sort((a, b, a * b, b), dimension=0, num_keys=3), TIES, TIES[::-1])
    case("lexsort", lambda a, b: jnp.lexsort((b, a), axis=1), TIES, np.asarray(numbers((2, 6), 4)))
    case("sort of complex numbers", lambda x, y: (jnp.sort(x + 1j * y), jnp.argsort(x + 1j * y)), np.sign(X), Y)
    case("sort of bools and small integers", lambda x: (jnp.sort(x > 0), jnp.sort(x.astype(jnp.int8)), jnp.sort(x.astype(jnp.uint32))), INTS)
    case("sort of halves", lambda x: (jnp.sort(x.astype(jnp.bfloat16)), jnp.sort(x.astype(jnp.float16), descending=True)), EDGES)
    case("gradient of sort", jax.grad(lambda x: jnp.sum(jnp.sort(x, 1) * jnp.arange(6))), X)
    case("top_k", lambda x: (lax.top_k(x, 3), lax.top_k(x[0], 1)), X)
    case("top_k of NaN and zeros", lambda x: lax.top_k(x, 6), EDGES)
    case("gradient of top_k", jax.grad(lambda x: jnp.sum(lax.top_k(x, 3)[0] ** 2)), X)
    case("approximate top_k", lambda x: (lax.approx_max_k(x, 2), lax.approx_min_k(x, 2)), X)
    case("partition", lambda x: (jnp.partition(x, 2), jnp.argpartition(x, 2)[..., 2]), X)


def bits():
    case("clz and popcnt", lambda x: tuple(f(x.astype(t)) for f in (lax.clz, lax.population_count)
                                           for t in ("int8", "uint8", "int16", "uint16", "int32", "uint32")), INTS)
    case("clz of 64 bits", lambda x: (lax.clz(x), lax.population_count(x.astype(jnp.uint64))), np.array([0, 1, -1, 2**40, -2**63]), x64=True)
    case("bitcast to another width", lambda x: (
        lax.bitcast_convert_type(x, jnp.uint8), lax.bitcast_convert_type(x, jnp.int16), lax.bitcast_convert_type(x, jnp.float16),
        lax.bitcast_convert_type(x, jnp.int32)), X)
    case("bitcast from another width", lambda x: (
        lax.bitcast_convert_type(x.astype(jnp.int8), jnp.float32), lax.bitcast_convert_type(x.astype(jnp.uint16).reshape(-1, 2), jnp.int32),
        lax.bitcast_convert_type(x.astype(jnp.int8).reshape(-1, 2), jnp.bfloat16)), INTS)
    case("bitcast of 64 bits", lambda x: (lax.bitcast_convert_type(x, jnp.uint32), lax.bitcast_convert_type(
        lax.bitcast_convert_type(x, jnp.uint16), jnp.int64)), np.array([0.1, -2.5, 1e300, -0.0]), x64=True)
    case("views", lambda x: (x.view(jnp.int8), x.view(jnp.int16), x.astype(jnp.int8).view(jnp.int32)), INTS)
    case("packbits", lambda x: (jnp.packbits(x > 0, axis=1), jnp.unpackbits(x.astype(jnp.uint8), axis=0)), INTS)
    case("shifts and logic", lambda x: (x << 3, x >> 1, lax.shift_right_logical(x, 2), x ^ 5, ~x, x & 6, x | 1, ~(x > 0)), INTS)
    case("frexp, ldexp, nextafter and signbit", lambda x: (jnp.frexp(x), jnp.ldexp(x, 3), jnp.nextafter(x, 1.0), jnp.signbit(x), jnp.copysign(1.0, x)), EDGES)


def dtypes():
    case("float8", lambda x: (x.astype(jnp.float8_e4m3fn), x.astype(jnp.float8_e5m2), x.astype(jnp.float8_e4m3fn).astype(jnp.float32) * 2), X)
    case("arguments of float8", lambda x, y: (x.astype(jnp.float32) @ y.astype(jnp.float32).T, x), X.astype(jnp.float8_e4m3fn), Y.astype(jnp.float8_e5m2))
    case("constants of float8", lambda x: (jnp.array([1.5, -0.25, 448], jnp.float8_e4m3fn), x.astype(jnp.float8_e5m2) + jnp.float8_e5m2(2)), X)
    case("a product of float8 in f32", lambda x, y: lax.dot_general(x, y, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32),
         X.astype(jnp.float8_e4m3fn), Y.astype(jnp.float8_e4m3fn))
    case("halves", lambda x, y: (x.astype(jnp.bfloat16) @ y.astype(jnp.bfloat16).T, (x.astype(jnp.float16) * 3).sum(1)), X, Y)
    case("64 bits", lambda x, i: (jnp.sin(x) * i, i << 40, x.astype(jnp.int64), jnp.cumsum(x), i // 3, i % 7), X[0].astype(np.float64), np.arange(6) - 3, x64=True)
    case("complex numbers", lambda x, y: (lambda z: (z * z, jnp.exp(z), jnp.abs(z), jnp.conj(z), jnp.angle(z), z.real, 1 / (z + 2), jnp.sqrt(z)))(x + 1j * y), X, Y)
    case("conversions", lambda x: tuple((x * 3).astype(t) for t in ("int8", "uint8", "int16", "bool", "float16", "bfloat16", "complex64")), POSITIVE)
    case("rounding and remainders", lambda x: (jnp.round(x * 4), jnp.floor(x * 4), jnp.ceil(x), jnp.trunc(x * 4), x % 0.3, jnp.fmod(x, 0.3), x // 0.3, jnp.rint(x)), X)


def linear_algebra():
    case("cholesky", lambda a: (jnp.linalg.cholesky(a), jnp.linalg.cholesky(a, upper=True)), DEFINITE)
    case("cholesky of what is not definite", lambda a: jnp.linalg.cholesky(-a), DEFINITE)
    case("gradient of cholesky", jax.grad(lambda a: jnp.sum(jnp.linalg.cholesky(a) ** 3)), DEFINITE, near=1e-4)
    case("cholesky of many in f64", lambda a: jnp.linalg.cholesky(a), np.stack([DEFINITE, DEFINITE + np.eye(5)]).astype(np.float64), x64=True)
    case("qr", lambda a: jnp.linalg.qr(a), TALL)
    case("complete qr, and of wide matrices", lambda a: (jnp.linalg.qr(a, "complete"), jnp.linalg.qr(a.T), jnp.linalg.qr(a, "r")), TALL)
    case("gradient of qr", jax.grad(lambda a: sum(jnp.sum(f ** 3) for f in jnp.linalg.qr(a))), TALL, near=1e-4)
    case("reflections of qr", lambda a: (lambda h, t: (h, t, lax.linalg.householder_product(h.mT, t)))(*jnp.linalg.qr(a, "raw")), TALL)
    case("eigh", lambda a: (lambda w, v: (w, v @ jnp.diag(jnp.exp(w / 9)) @ v.T))(*jnp.linalg.eigh(a)), SYMMETRIC, near=1e-4)
    case("gradient of eigh", jax.grad(lambda a: (lambda w, v: jnp.sum(w ** 2) + jnp.sum(v ** 4))(*jnp.linalg.eigh(a))), SYMMETRIC, near=1e-3)
    case("eigvalsh of many, of the upper triangle", lambda a: (jnp.linalg.eigvalsh(jnp.stack([a, 2 * a])), jnp.linalg.eigvalsh(a, "U")), MATRIX, near=1e-4)
    case("svd", lambda a: (lambda u, s, vh: (s, u * s @ vh))(*jnp.linalg.svd(a, full_matrices=False)), TALL)
    case("svd with all columns", lambda a: (lambda u, s, vh: (s, u.T @ u, u[:, :4] * s @ vh, vh.T @ vh))(*jnp.linalg.svd(a)), TALL)
    case("svd of wide matrices with all rows", lambda a: (lambda u, s, vh: (s, vh @ vh.T, u * s @ vh[:4]))(*jnp.linalg.svd(a.T)), TALL)
    case("singular values, rank, condition", lambda a: (jnp.linalg.svdvals(a), jnp.linalg.matrix_rank(a), jnp.linalg.cond(a), jnp.linalg.norm(a, 2)), TALL)
    case("gradient of singular values", jax.grad(lambda a: jnp.sum(jnp.linalg.svd(a, compute_uv=False) ** 3)), TALL, near=1e-4)
    case("pinv and lstsq", lambda a, b: (jnp.linalg.pinv(a), jnp.linalg.lstsq(a, b)[0]), TALL, np.asarray(numbers((6,), 3)), near=1e-4)
    case("lu", lambda a: (jsp.linalg.lu(a), lax.linalg.lu(a)), MATRIX)
    case("lu of many and of tall matrices", lambda a, b: (lax.linalg.lu(jnp.stack([a, a[::-1]])), lax.linalg.lu(b), lax.linalg.lu(b.T)), MATRIX, TALL)
    case("solve, inv, det", lambda a, b: (jnp.linalg.solve(a, b), jnp.linalg.inv(a), jnp.linalg.det(a), jnp.linalg.slogdet(a)), MATRIX, np.asarray(numbers((5, 2), 3)), near=1e-4)
    case("gradient of solve and slogdet", jax.grad(lambda a, b: jnp.sum(jnp.linalg.solve(a, b) ** 2) + jnp.linalg.slogdet(a)[1]), MATRIX, np.asarray(numbers((5, 2), 3)), near=1e-4)
    case("solve of many in f64", lambda a, b: jax.vmap(jnp.linalg.solve)(a, b), np.stack([MATRIX, MATRIX.T]).astype(np.float64), np.asarray(numbers((2, 5), 3)).astype(np.float64), x64=True)
    case("triangular solves", lambda a, b: tuple(jsp.linalg.solve_triangular(a, b, trans=t, lower=l, unit_diagonal=u)
                                                 for t in (0, 1) for l in (False, True) for u in (False, True)), MATRIX / 4 + np.eye(5, dtype=np.float32), np.asarray(numbers((5, 2), 3)), near=1e-4)
    case("triangular solves from the right", lambda a, b: tuple(lax.linalg.triangular_solve(
        a, b, left_side=False, lower=l, transpose_a=t) for l in (False, True) for t in (False, True)), MATRIX, np.asarray(numbers((2, 5), 3)), near=1e-4)
    case("cho_solve and lu_solve", lambda a, b: (jsp.linalg.cho_solve(jsp.linalg.cho_factor(a), b), jsp.linalg.lu_solve(jsp.linalg.lu_factor(a), b, trans=1)), DEFINITE, np.asarray(numbers((5,), 3)), near=1e-3)
    case("eig", lambda a: (lambda w, v: (jnp.sort(w.real), jnp.linalg.norm(v, axis=0), jnp.max(jnp.abs(a @ v - v * w))))(*jnp.linalg.eig(a)), MATRIX, near=1e-4)
    case("schur", lambda a: (lambda t, z: (z @ t @ z.T, z @ z.T))(*jsp.linalg.schur(a)), MATRIX, near=1e-4)
    case("expm and matrix_power", lambda a: (jsp.linalg.expm(a / 4), jnp.linalg.matrix_power(a, 3)), MATRIX, near=1e-4)
    case("multivariate normal", lambda x, c: jsp.stats.multivariate_normal.logpdf(x, jnp.zeros(5), c), np.asarray(numbers((3, 5), 2)), DEFINITE, near=1e-4)


def shapes():
    case("indexing", lambda x, i: (x[i], x[:, i], x[i, i], x[1:3, ::2], x[..., -1], jnp.take(x, i, 1), jnp.take_along_axis(x, i[:, None], 1)), X, np.array([2, 0, 3, -1], np.int32))
    case("updates", lambda x, i: (x.at[i].set(1.0), x.at[:, i].add(2.0), x.at[i].multiply(3.0), x.at[i].min(0.1), x.at[i].max(0.1), x.at[1:3].set(0.0)), X, np.array([2, 0, 2, 9], np.int32))
    case("updates by a function", lambda x: x.at[jnp.array([2, 0])].apply(jnp.sin), X)
    case("gradient of indexing", jax.grad(lambda x, i: jnp.sum(x[i] ** 3)), X, np.array([2, 0, 2], np.int32))
    case("shapes", lambda x: (x.reshape(3, 8), x.T, jnp.concatenate([x, x], 1), jnp.stack([x, x]), jnp.tile(x, (2, 1)), jnp.repeat(x, 2, 0), jnp.flip(x, 0), jnp.roll(x, 1, 1), jnp.rot90(x), jnp.tril(x)), X)
    case("pads", lambda x: (jnp.pad(x, 1), jnp.pad(x, ((1, 2), (0, 1)), "edge"), jnp.pad(x, 2, "reflect"), jnp.pad(x, 1, "wrap"), lax.pad(x, 2.0, ((-1, 1, 1), (0, -2, 2)))), X)
    case("dynamic slices", lambda x, i: (lax.dynamic_slice(x, (i, 1), (2, 3)), lax.dynamic_update_slice(x, jnp.ones((2, 2)), (i, 5)), lax.dynamic_index_in_dim(x, i, 0)), X, np.int32(3))
    case("einsum", lambda x, y: (jnp.einsum("ij,kj->ik", x, y), jnp.einsum("ij,ij->", x, y), jnp.tensordot(x, y, ((0,), (0,))), jnp.outer(x[0], y[0]), jnp.kron(x[:2, :2], y[:2, :2])), X, Y)
    case("meshgrid, linspace, arange", lambda x: (jnp.meshgrid(x, x), jnp.linspace(0, x[0], 5), jnp.arange(7) * x[1], jnp.eye(3, 4), jnp.vander(x)), V[:3])
    case("convolve and correlate", lambda x, y: (jnp.convolve(x, y), jnp.correlate(x, y, "same"), jsp.signal.convolve2d(x.reshape(3, 3), y.reshape(3, 3))), V, V[::-1].copy())
    case("map_coordinates and resize", lambda x, c: (jsp.ndimage.map_coordinates(x, c, 1), jax.image.resize(x, (6, 8), "bilinear")), X, np.array([[0.5, 2.25, 1.0], [1.5, 3.0, 4.75]], np.float32))


def functions():
    case("elementwise functions", lambda x: tuple(getattr(jnp, f)(x) for f in "exp exp2 expm1 log log2 log1p sqrt cbrt sin cos tan arctan sinh cosh tanh arcsinh square reciprocal sign abs".split()), POSITIVE)
    case("inverse functions", lambda x: (jnp.arcsin(x), jnp.arccos(x), jnp.arctanh(x), jnp.arccosh(1 + jnp.abs(x)), jnp.arctan2(x, 0.5), jnp.hypot(x, 2.0), jnp.sinc(x), jnp.deg2rad(x)), X)
    case("special functions", lambda x: (jsp.special.erf(x), jsp.special.erfc(x), jsp.special.erfinv(x / 2), jsp.special.gammaln(x), jsp.special.digamma(x), jsp.special.i0e(x), jsp.special.i1(x), jsp.special.ndtri(x / 2), jsp.special.expit(x)), POSITIVE, near=1e-4)
    case("more special functions", lambda x: (jsp.special.betainc(1.5, 2.0, x / 2), jsp.special.gammainc(1.5, x), jsp.special.gammaincc(1.5, x), jsp.special.zeta(x + 1.5, 1.0), jsp.special.polygamma(1, x), jsp.special.betaln(x, 2.0), jsp.special.xlogy(x, x), jsp.special.entr(x)), POSITIVE, near=1e-4)
    case("activations", lambda x: tuple(f(x) for f in (jax.nn.relu, jax.nn.gelu, jax.nn.silu, jax.nn.elu, jax.nn.selu, jax.nn.softplus, jax.nn.leaky_relu, jax.nn.hard_swish, jax.nn.mish, jax.nn.glu, jax.nn.relu6, lambda x: jax.nn.gelu(x, approximate=False))), X)
    case("comparisons of NaN and zeros", lambda x: (x < x[::-1], x == x, x != x, x >= 0, jnp.maximum(x, 0), jnp.minimum(x, x[::-1]), jnp.isnan(x), jnp.isfinite(x), jnp.isinf(x), jnp.nan_to_num(x), jnp.clip(x, -1, 1), jnp.sign(x)), EDGES)
    case("Fourier transforms", lambda x: (jnp.fft.fft(x), jnp.fft.ifft2(x), jnp.fft.rfft(x), jnp.fft.irfft(x), jnp.fft.fftshift(x)), X)
    case("gradient of a Fourier transform", jax.grad(lambda x: jnp.sum(jnp.abs(jnp.fft.rfft(x)) ** 2)), X)
    case("polynomials", lambda x: (jnp.polyval(x[:4], x), jnp.polyadd(x[:3], x), jnp.polymul(x[:3], x[:4]), jnp.polyder(x)), V)
    case("losses", lambda x, y: (optax.sigmoid_binary_cross_entropy(x, jax.nn.sigmoid(y)), optax.huber_loss(x, y), optax.cosine_similarity(x, y), optax.smooth_labels(jax.nn.one_hot(jnp.arange(4), 6), 0.1)), X, Y)


def random_numbers():
    key = np.array([3, 9], np.uint32)
    case("random numbers", lambda k: (jax.random.uniform(k, (5,)), jax.random.normal(k, (5,)), jax.random.bits(k, (4,)), jax.random.randint(k, (5,), -3, 9), jax.random.split(k, 3), jax.random.fold_in(k, 7)), key)
    case("random choices", lambda k, x: (jax.random.permutation(k, 8), jax.random.choice(k, x, (4,)), jax.random.categorical(k, x), jax.random.bernoulli(k, 0.3, (6,))), key, V)
    case("random distributions", lambda k: (jax.random.gamma(k, 2.0, (3,)), jax.random.exponential(k, (3,)), jax.random.laplace(k, (3,)), jax.random.truncated_normal(k, -1.0, 1.0, (3,)), jax.random.poisson(k, 4.0, (3,)), jax.random.orthogonal(k, 3)), key, near=1e-4)


def control_flow():
    case("scan", lambda x: lax.scan(lambda c, row: (jnp.tanh(c + row), c.sum()), jnp.zeros(6), x), X)
    case("gradient of scan", jax.grad(lambda x: lax.scan(lambda c, row: (jnp.tanh(c + row), c.sum()), jnp.zeros(6), x)[0].sum()), X)
    case("while_loop", lambda x: lax.while_loop(lambda c: jnp.sum(jnp.abs(c)) < 40, lambda c: c * 1.5 + 0.125, x), X)
    case("fori_loop", lambda x, n: lax.fori_loop(0, n, lambda i, c: c * 0.5 + i, x), X, np.int32(5))
    case("cond and switch", lambda x, i: (lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), lax.switch(i, [jnp.exp, jnp.tanh, jnp.abs], x)), X, np.int32(1))
    case("gradient of cond", jax.grad(lambda x: lax.cond(x.sum() > 0, jnp.sin, lambda x: x * x, x).sum()), X)
    case("map and vmap", lambda x, i: (lax.map(lambda row: row.sum() * row, x), jax.vmap(lambda row, j: lax.cond(j > 0, jnp.sin, jnp.cos, row))(x, i)), X, np.array([1, -1, 0, 2], np.int32))
    case("checkpoint, custom_jvp and hessian", lambda x: (jax.grad(jax.checkpoint(lambda x: jnp.sum(jnp.sin(jnp.sin(x)))))(x), jax.hessian(lambda x: jnp.sum(jax.nn.relu(x) ** 3))(x)), V[:4])
    case("named calls and donated arguments", jax.jit(lambda x: jax.named_call(jnp.sin, name="sine")(x) + 1, donate_argnums=0), X)
    case("an argument that is not used, and one that is returned", lambda x, y: (y, jnp.float32(2)), X, Y)


def refusals():
    refused("argument of int4", ["dtype i4"], lambda x: x, np.zeros(4, jnp.int4))
    refused("argument of uint4", ["dtype ui4"], lambda x: x, np.zeros(4, jnp.uint4))
    refused("int4 within", ["dtype i4"], lambda x: x.astype(jnp.int4).astype(jnp.int32), INTS)
    refused("float8_e4m3b11fnuz", ["f8_e4m3b11fnuz"], lambda x: x, np.zeros(4, jnp.float8_e4m3b11fnuz))
    refused("float8_e5m2fnuz within", ["f8E5M2FNUZ"], lambda x: x.astype(jnp.float8_e5m2fnuz).astype(jnp.float32), X)
    refused("float4_e2m1fn", ["f4_e2m1fn"], lambda x: x, np.zeros(4, jnp.float4_e2m1fn))
    refused("keys", ["key"], lambda k: jax.random.uniform(k), jax.random.key(0))
    refused("bits of another generator", ["rng_bit_generator"], lambda s: lax.rng_bit_generator(s, (3,)), np.zeros(4, np.uint32))
    refused("cholesky of complex numbers", ["'lapack_cpotrf_ffi'", "complex", "cholesky"], jnp.linalg.cholesky, np.eye(3, dtype=np.complex64))
    refused("a Hessenberg matrix", ["'lapack_sgehrd_ffi'"], lambda a: lax.linalg.hessenberg(a), MATRIX)
    mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("x")
    refused("a tridiagonal system", ["'lapack_sgtsv_ffi'"], lambda d, b: lax.linalg.tridiagonal_solve(d, d + 3, d, b), V, np.asarray(numbers((9, 2), 2)))
    refused("a collective of shard_map", ["all_reduce", "no operation like it"], jax.shard_map(lambda x: lax.psum(x, "x"), mesh=mesh, in_specs=spec, out_specs=spec), X)


def main():
    check_versions(VERSIONS)
    jax.config.update("jax_include_full_tracebacks_in_locations", False)
    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")  # names of files without folders
    only = sys.argv[1:]
    for part in (models, windows, running, reductions, searches, sorts, bits, dtypes, linear_algebra, shapes, functions,
                 random_numbers, control_flow, refusals):
        if not only or part.__name__ in only:
            part()
    text = "{\n" + ",\n".join(json.dumps(k) + ": " + json.dumps(v, separators=(",", ":")) for k, v in OUT.items()) + "\n}\n"
    out = pathlib.Path(__file__).parent / "exports.json.gz"
    out.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(len(OUT), "cases,", out.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
