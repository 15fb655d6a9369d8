#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/model_layers.json: what flax, and JAX by the formulas of the models' papers and of Hugging Face's
transformers, give for the layers that such models need, for model_layers_test.cc.

Run it with JAX and flax at the versions below (they are checked):
    python3 -m venv v && v/bin/pip install jax==0.10.2 jaxlib==0.10.2 flax==0.12.8 && v/bin/python tests/golden/model_layers.py
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from family import check_versions, numbers, put, write

VERSIONS = {"jax": "0.10.2", "jaxlib": "0.10.2", "flax": "0.12.8"}


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


def norms():
    image = numbers((4, 3, 2, 6), 1)
    params = {"scale": numbers((6,), 2), "bias": numbers((6,), 3)}
    for groups in (1, 2, 6):
        layer(f"GroupNorm({groups})", apply(nn.GroupNorm(groups, use_fast_variance=False)), params, image)
    layer("GroupNorm(rows)", apply(nn.GroupNorm(3, use_fast_variance=False)), params, numbers((4, 6), 1))

    stats = {"mean": numbers((6,), 4), "var": numbers((6,), 5) + 1}
    norm = nn.BatchNorm(momentum=0.9, use_fast_variance=False)
    train = lambda p, x: norm.apply({"params": p, "batch_stats": stats}, x, use_running_average=False, mutable=["batch_stats"])
    layer("BatchNorm(training)", lambda p, x: train(p, x)[0], params, image)
    for name, value in train(params, image)[1]["batch_stats"].items():
        put(f"BatchNorm(training): {name}", value)
    layer("BatchNorm", lambda p, x: norm.apply({"params": p, "batch_stats": stats}, x, use_running_average=True), params, image)
    # PyTorch's running variance is that of n - 1 elements.
    rows = image.reshape(-1, 6)
    put("BatchNorm(unbiased): var", 0.9 * stats["var"] + 0.1 * jnp.var(rows, axis=0, ddof=1))


def convolutions():
    image = numbers((2, 3, 4, 3), 1)
    params = {"kernel": numbers((3, 2, 3, 5), 2), "bias": numbers((5,), 3)}
    layer("ConvTranspose", apply(nn.ConvTranspose(5, (3, 2), strides=(2, 1))), params, image)
    layer("ConvTranspose(transposed kernel)", apply(nn.ConvTranspose(5, (3, 2), strides=(2, 3), padding="VALID",
                                                                     transpose_kernel=True)),
          {"kernel": numbers((3, 2, 5, 3), 2), "bias": numbers((5,), 3)}, image)

    # Images of which the features come first, as PyTorch's.
    first = numbers((2, 3, 6, 5), 1)
    last = lambda x: jnp.transpose(x, (0, 2, 3, 1))
    back = lambda x: jnp.transpose(x, (0, 3, 1, 2))
    for pool in ("max_pool", "min_pool", "avg_pool"):
        of = lambda x, **kwargs: back(getattr(nn.pooling, pool)(last(x), (2, 3), **kwargs))
        layer(f"{pool}(NCHW)", lambda p, x: of(x, strides=(2, 1), padding="SAME"), {}, first)
    put("avg_pool(NCHW, count_include_pad=False)",
        back(nn.avg_pool(last(first), (3, 2), strides=(2, 2), padding=((1, 1), (1, 0)), count_include_pad=False)))


def attention():
    x = numbers((2, 5, 4, 3), 1)
    params = {"key": numbers((2, 6, 2, 3), 2), "value": numbers((2, 6, 2, 3), 3)}
    queries, keys = jnp.array([5, 3]), jnp.array([4, 6])
    mask = (jnp.arange(30) % 7 != 3).reshape(5, 6)
    for name, options in {
        "window": dict(local_window_size=(2, 1)),
        "window, causal": dict(local_window_size=1, is_causal=True),
        "key lengths": dict(key_value_seq_lengths=keys),
        "query lengths": dict(query_seq_lengths=queries),
        "everything": dict(local_window_size=(3, 1), is_causal=True, query_seq_lengths=queries, key_value_seq_lengths=keys,
                           mask=mask[None, None], bias=numbers((4, 5, 6), 4)[None]),
    }.items():
        layer(f"attention({name})", lambda p, x: jax.nn.dot_product_attention(x, p["key"], p["value"], **options), params, x)


def rotary():
    """transformers' formulas (modeling_rope_utils.py), in float64."""
    base, positions = 10000.0, np.array([[0, 1, 7, 30, 61], [5, 6, 7, 100, 300]])

    def rates(features):
        return base ** (-np.arange(0, features, 2) / features)

    def llama3(features, factor, low, high, original):
        wave = 2 * np.pi / rates(features)
        smooth = (original / wave - low) / (high - low)
        changed = np.where(wave > original / low, rates(features) / factor, rates(features))
        return np.where((wave >= original / high) & (wave <= original / low),
                        (1 - smooth) * rates(features) / factor + smooth * rates(features), changed)

    def yarn(features, factor, original, truncate=True):
        pair = lambda turns: features * np.log(original / (turns * 2 * np.pi)) / (2 * np.log(base))
        low, high = pair(32), pair(1)
        if truncate:
            low, high = np.floor(low), np.ceil(high)
        low, high = max(low, 0), min(high, features - 1)
        extrapolated = 1 - np.clip((np.arange(features // 2) - low) / (high - low), 0, 1)
        return rates(features) / factor * (1 - extrapolated) + rates(features) * extrapolated

    def turned(x, rates, factor=1.0, interleaved=False):
        features = 2 * len(rates)
        own, rest = x[..., :features], x[..., features:]
        angles = positions[..., None, None] * rates
        a, b = (own[..., ::2], own[..., 1::2]) if interleaved else (own[..., :features // 2], own[..., features // 2:])
        c, s = np.cos(angles) * factor, np.sin(angles) * factor
        pair = (a * c - b * s, b * c + a * s)
        own = np.stack(pair, -1).reshape(own.shape) if interleaved else np.concatenate(pair, -1)
        return np.concatenate([own, rest], -1)

    x = np.asarray(numbers((2, 5, 3, 16), 1), np.float64)
    scale = lambda factor, by=1.0: 0.1 * by * np.log(factor) + 1
    put("rotary(partial)", turned(x, rates(8)))
    put("rotary(interleaved)", turned(x, rates(16), interleaved=True))
    put("rotary(partial, interleaved)", turned(x, rates(4), interleaved=True))
    put("rotary(linear)", turned(x, rates(16) / 4))
    put("rotary(llama3)", turned(x, llama3(16, 8, 1, 4, 256)))
    put("rotary(yarn)", turned(x, yarn(16, 4, 512), scale(4)))
    put("rotary(yarn, mscale)", turned(x, yarn(16, 40, 4096, False), scale(40, 0.707) / scale(40, 1.5)))
    put("rotary(yarn, attention_factor)", turned(x, yarn(16, 0.5, 512), 1.25))


def relative_positions():
    """transformers' T5Attention.compute_bias."""

    def bias(table, queries, keys, bidirectional, buckets=32, max_distance=128, first=0):
        ahead = np.arange(keys)[None, :] - (first + np.arange(queries))[:, None]
        if bidirectional:
            buckets //= 2
            bucket, distance = (ahead > 0) * buckets, np.abs(ahead)
        else:
            bucket, distance = 0, -np.minimum(ahead, 0)
        exact = buckets // 2
        large = exact + (np.log(np.maximum(distance, 1).astype(np.float32) / np.float32(exact)) / np.float32(np.log(max_distance / exact))
                         * np.float32(buckets - exact)).astype(np.int64)
        bucket = bucket + np.where(distance < exact, distance, np.minimum(large, buckets - 1))
        return jnp.transpose(table[bucket], (2, 0, 1))[None]

    table = numbers((32, 3), 1)
    put("relative position bias", bias(table, 5, 7, True))
    weighed = lambda table: jnp.sum(bias(table, 5, 7, True) * numbers((1, 3, 5, 7), 9))
    put("relative position bias: by embedding", jax.grad(weighed)(table))
    put("relative position bias(far)", bias(table[:, :1], 3, 300, True, first=150))
    put("relative position bias(decoder)", bias(table[:, :1], 200, 200, False)[:, :, ::29])
    put("relative position bias(few buckets)", bias(table[:, :1], 40, 40, True, 8, 20)[:, :, ::13])


def main():
    check_versions(VERSIONS)
    norms()
    convolutions()
    attention()
    rotary()
    relative_positions()
    write("model_layers.json")


main()
