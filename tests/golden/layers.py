#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/layers.json: what JAX's initializers and flax's layers give, for layers_test.cc.

Run it with JAX, flax and optax at the versions below (they are checked):
    python3 -m venv v && v/bin/pip install jax==0.10.2 jaxlib==0.10.2 flax==0.12.8 optax==0.2.8 && v/bin/python tests/golden/layers.py
"""

import flax
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.nn import initializers as init

from family import check_versions, numbers, put, write

VERSIONS = {"jax": "0.10.2", "jaxlib": "0.10.2", "flax": "0.12.8", "optax": "0.2.8"}


def key_at(key, path):
    """As lockstep::nn::key_at: the 32-bit FNV-1a hash of the path, folded in."""
    if not path:
        return key
    h = 2166136261
    for byte in path.encode():
        h = ((h ^ byte) * 16777619) & 0xFFFFFFFF
    return jax.random.fold_in(key, np.uint32(h))


def initializers():
    key = jax.random.PRNGKey(7)
    shape = (4, 6)
    put("zeros", init.zeros(key, shape))
    put("ones", init.ones(key, shape))
    put("constant", init.constant(0.3)(key, shape))
    put("uniform", init.uniform(0.7)(key, shape))
    put("normal", init.normal(0.7)(key, shape))
    put("truncated_normal", init.truncated_normal(0.7, lower=-1.0, upper=1.5)(key, shape))
    for name in ["lecun", "he", "glorot"]:
        for kind in ["normal", "uniform"]:
            put(f"{name}_{kind}", getattr(init, f"{name}_{kind}")()(key, shape))
    put("he_uniform(bf16)", init.he_uniform()(key, shape, jnp.bfloat16))
    put("glorot_uniform(window)", init.glorot_uniform()(key, (2, 3, 4, 2)))
    put("variance_scaling(axes)", init.variance_scaling(1.5, "fan_geo_avg", "uniform", in_axis=(0, 1), out_axis=-1,
                                                        batch_axis=2)(key, (2, 3, 4, 2)))
    put("variance_scaling(fan_out)", init.variance_scaling(0.5, "fan_out", "normal")(key, shape))
    put("orthogonal(tall)", init.orthogonal(2.0)(key, (6, 3)))
    put("orthogonal(wide)", init.orthogonal()(key, (3, 6)))
    put("orthogonal(column_axis)", init.orthogonal(column_axis=0)(key, (3, 2, 4)))


def layer(name, function, params, x):
    """The value, and the derivative of its sum times numbers(…, 9) with respect to x and each parameter."""
    y = function(params, x)
    put(name, y)
    loss = lambda params, x: jnp.sum(function(params, x) * numbers(y.shape, 9))
    by_params, by_x = jax.grad(loss, argnums=(0, 1))(params, x)
    put(name + ": by x", by_x)
    for path, leaf in by_params.items():
        put(f"{name}: by {path}", leaf)


def apply(module):
    return lambda params, *args, **kwargs: module.apply({"params": params}, *args, **kwargs)


def rotary(x, positions=None, base=10000.0):
    """flax has none: the points of the plane as complex numbers, each turned by its angle."""
    half = x.shape[-1] // 2
    angles = (jnp.arange(x.shape[1]) if positions is None else positions)[..., None, None] * base ** (-jnp.arange(half) / half)
    z = (x[..., :half] + 1j * x[..., half:]) * jnp.exp(1j * angles)
    return jnp.concatenate([z.real, z.imag], -1)


def layers():
    x = numbers((2, 5, 4), 1)
    layer("Linear", apply(nn.Dense(3)), {"kernel": numbers((4, 3), 2), "bias": numbers((3,), 3)}, x)
    layer("Linear(of several dimensions)", apply(nn.DenseGeneral((2, 3), axis=(-2, -1))),
          {"kernel": numbers((5, 4, 2, 3), 2), "bias": numbers((2, 3), 3)}, x)
    layer("Embedding.attend", lambda p, x: nn.Embed(7, 4).apply({"params": p}, x, method="attend"),
          {"embedding": numbers((7, 4), 2)}, x)
    put("Embedding", nn.Embed(7, 4).apply({"params": {"embedding": numbers((7, 4), 2)}}, jnp.array([[1, 6], [0, 3]])))
    layer("LayerNorm", apply(nn.LayerNorm(use_fast_variance=False)), {"scale": numbers((4,), 2), "bias": numbers((4,), 3)}, x)
    layer("RMSNorm", apply(nn.RMSNorm()), {"scale": numbers((4,), 2)}, x)
    image = numbers((2, 5, 6, 4), 1)
    layer("Conv", apply(nn.Conv(3, (3, 2), strides=(2, 1))), {"kernel": numbers((3, 2, 4, 3), 2), "bias": numbers((3,), 3)}, image)
    layer("Conv(dilated, in groups)", apply(nn.Conv(6, (3, 3), padding="VALID", kernel_dilation=(2, 1), feature_group_count=2,
                                                    use_bias=False)), {"kernel": numbers((3, 3, 2, 6), 2)}, image)

    def attention(p, x, **kwargs):
        split = {"query": {"kernel": p["query"], "bias": numbers((2, 3), 4)}, "key": {"kernel": p["key"], "bias": numbers((2, 3), 5)},
                 "value": {"kernel": p["value"], "bias": numbers((2, 3), 6)}, "out": {"kernel": p["out"], "bias": numbers((5,), 7)}}
        return nn.MultiHeadDotProductAttention(2, qkv_features=6, out_features=5).apply({"params": split}, x, **kwargs)

    params = {"query": numbers((4, 2, 3), 1), "key": numbers((4, 2, 3), 2), "value": numbers((4, 2, 3), 3),
              "out": numbers((2, 3, 5), 8)}
    layer("MultiHeadAttention", attention, params, x)
    put("MultiHeadAttention(causal)", attention(params, x, mask=nn.make_causal_mask(jnp.ones((2, 5)))))

    rows = numbers((2, 5, 3, 4), 1)
    layer("rotary_embedding", lambda p, x: rotary(x), {}, rows)
    layer("rotary_embedding(positions, base)", lambda p, x: rotary(x, jnp.array([[7, 0, 1, 2, 3], [4, 5, 6, 9, 8]]), 100.0), {}, rows)

    def turned(p, x):
        query, key, value = (jnp.einsum("bti,ihf->bthf", x, p[name]) for name in ("query", "key", "value"))
        return jnp.einsum("bthf,hfo->bto", jax.nn.dot_product_attention(rotary(query), rotary(key), value, is_causal=True), p["out"])

    layer("MultiHeadAttention(rotary)", turned, {"query": numbers((4, 2, 4), 1), "key": numbers((4, 2, 4), 2),
                                                 "value": numbers((4, 2, 4), 3), "out": numbers((2, 4, 4), 8)}, x)

    gates = lambda p, names, of, bias=None: {n: {"kernel": p[of][:, i]} | ({"bias": p[bias][i]} if bias else {})
                                             for i, n in enumerate(names)}

    def lstm(p, xs):
        split = gates(p, ["ii", "if", "ig", "io"], "input") | gates(p, ["hi", "hf", "hg", "ho"], "recurrent", "bias")
        step = lambda c, x: nn.LSTMCell(3).apply({"params": split}, c, x)
        return jax.lax.scan(step, (numbers((5, 3), 4), numbers((5, 3), 5)), xs)[1]

    layer("LSTMCell", lstm, {"input": numbers((4, 4, 3), 1), "recurrent": numbers((3, 4, 3), 2), "bias": numbers((4, 3), 3)}, x)

    def gru(p, xs):
        split = gates(p, ["ir", "iz", "in"], "input", "input_bias") | gates(p, ["hr", "hz", "hn"], "recurrent")
        split["hn"]["bias"] = p["bias"]
        step = lambda c, x: nn.GRUCell(3).apply({"params": split}, c, x)
        return jax.lax.scan(step, numbers((5, 3), 4), xs)[1]

    layer("GRUCell", gru, {"input": numbers((4, 3, 3), 1), "input_bias": numbers((3, 3), 2), "recurrent": numbers((3, 3, 3), 3),
                           "bias": numbers((3,), 6)}, x)


def halves():
    """Norms and losses of float16 and bfloat16, of rows whose squares overflow, lie far from 0 or are constant."""
    half = lambda x, dtype: x.astype(dtype)
    weights = {"scale": numbers((16,), 2) + 1, "bias": numbers((16,), 3)}
    for dtype in (jnp.float16, jnp.bfloat16):
        name = jnp.dtype(dtype).name
        scale, bias = half(weights["scale"], dtype), half(weights["bias"], dtype)
        for rows, x in {"plain": numbers((4, 16), 1), "shifted": numbers((4, 16), 1) + 20, "large": numbers((4, 16), 1) * 4000,
                        "constant": numbers((4, 1), 1) * 8 + jnp.zeros((4, 16)) + 9}.items():
            x = half(x, dtype)
            layer_norm = lambda x: nn.LayerNorm(epsilon=1e-12, use_fast_variance=False).apply({"params": {"scale": scale, "bias": bias}}, x)
            rms_norm = lambda x: nn.RMSNorm(epsilon=1e-12).apply({"params": {"scale": scale}}, x)
            put(f"layer_norm({name}, {rows})", layer_norm(x))
            put(f"rms_norm({name}, {rows})", rms_norm(x))
            put(f"rms_norm({name}, {rows}): by x", jax.grad(lambda x: jnp.sum(rms_norm(x) * half(numbers((4, 16), 9), dtype)))(x))
            # jax.nn.standardize takes its statistics in the dtype of x.
            put(f"standardize({name}, {rows})", half(jax.nn.standardize(x.astype(jnp.float32), epsilon=1e-12), dtype))
        # Like torch's, and unlike optax's, computed in float32 and rounded once.
        x, y = half(numbers((4, 16), 1) * 30, dtype), half(numbers((4, 16), 2) * 7, dtype)
        wide, other = x.astype(jnp.float32), y.astype(jnp.float32)
        rounded = lambda x: half(x, dtype).astype(jnp.float32)
        labels = jnp.array([3, 0, 15, 7])
        chances = half(jax.nn.softmax(other), dtype)
        put(f"softmax_cross_entropy_with_integer_labels({name})",
            half(optax.softmax_cross_entropy_with_integer_labels(wide, labels), dtype))
        put(f"softmax_cross_entropy({name})", half(optax.softmax_cross_entropy(wide, chances.astype(jnp.float32)), dtype))
        put(f"kl_divergence({name})", half(optax.kl_divergence(rounded(jax.nn.log_softmax(wide / 32)), chances.astype(jnp.float32)), dtype))
        put(f"cosine_similarity({name})", half(optax.cosine_similarity(rounded(wide * 200), rounded(other * 100)), dtype))
        put(f"log_cosh({name})", half(optax.log_cosh(wide / 32, other / 8), dtype))
        put(f"sigmoid_binary_cross_entropy({name})", half(optax.sigmoid_binary_cross_entropy(wide / 8, chances.astype(jnp.float32)), dtype))


def labels():
    """Labels beyond the classes, from the end and ignored."""
    logits = numbers((6, 5), 1)
    put("integer labels(out of range)", optax.softmax_cross_entropy_with_integer_labels(logits, jnp.array([-1, -5, -6, 4, 5, -100])))
    ids = jnp.array([2, -100, 0, 4, -100, 1])
    # As PyTorch's cross_entropy(ignore_index=-100, reduction="none").
    loss = lambda x: jnp.where(ids == -100, 0.0, optax.softmax_cross_entropy_with_integer_labels(x, jnp.where(ids == -100, 0, ids)))
    put("integer labels(ignored)", loss(logits))
    put("integer labels(ignored): by logits", jax.grad(lambda x: jnp.sum(loss(x)) / 4)(logits))


def models():
    """What nn::init gives to layers within a model, by their paths."""
    key = jax.random.PRNGKey(3)
    at = lambda *paths: __import__("functools").reduce(key_at, paths, key)
    put("model: blocks[1].attention.query.kernel",
        init.lecun_normal()(at("blocks[1].attention", "query", "kernel"), (4, 6)).reshape(4, 2, 3))
    put("model: blocks[0].mlp[1].kernel", init.he_uniform()(at("blocks[0].mlp[1]", "kernel"), (8, 4)))
    put("model: blocks[0].mlp[1].bias", init.uniform(0.5)(at("blocks[0].mlp[1]", "bias"), (4,)))
    put("model: table.embedding", init.variance_scaling(1.0, "fan_in", "normal", out_axis=0)(at("table", "embedding"), (7, 4)))
    keys = jax.random.split(at("cell", "recurrent", "kernel"), 4)
    put("model: cell.recurrent.kernel", jnp.stack([init.orthogonal()(k, (3, 3)) for k in keys], 1))
    put("model: conv.kernel", init.lecun_normal()(at("conv", "kernel"), (3, 3, 4, 2)))


def matrices():
    key = jax.random.PRNGKey(5)
    mean, root = numbers((2, 3), 1), numbers((3, 3), 2)
    covariance = root @ root.T + 0.5 * jnp.eye(3)
    put("random::orthogonal", jax.random.orthogonal(key, 3, (2,)))
    put("random::orthogonal(wide)", jax.random.orthogonal(key, 2, (), m=4))
    put("random::multivariate_normal", jax.random.multivariate_normal(key, mean, covariance))
    counts, chances = jnp.array([[3.0], [40.0], [1000.0]]), jnp.array([0.05, 0.3, 0.5, 0.9])
    put("random::binomial", jax.random.binomial(key, counts, chances))
    put("random::binomial(of none)", jax.random.binomial(key, jnp.array([-1.0, jnp.inf, jnp.nan, 5.0, 5.0]), jnp.array([0.5, 0.5, 0.5, jnp.nan, 1.0])))
    put("random::multivariate_normal(shape)", jax.random.multivariate_normal(key, mean[0], covariance, (4,)))


def main():
    check_versions(VERSIONS)
    initializers()
    layers()
    halves()
    labels()
    models()
    matrices()
    write("layers.json")


main()
