# SPDX-License-Identifier: Apache-2.0
"""examples/transformer.h in JAX: the same model, the same parameters from the same key, the same optimizer."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import optax


@dataclasses.dataclass(frozen=True)
class Config:
    vocabulary: int = 256
    context: int = 128
    width: int = 128
    heads: int = 4
    layers: int = 4


def key_at(key, path):
    """As lockstep::nn::key_at: the 32-bit FNV-1a hash of the path, folded in."""
    h = 2166136261
    for byte in path.encode():
        h = ((h ^ byte) * 16777619) & 0xFFFFFFFF
    return jax.random.fold_in(key, jnp.uint32(h))


def init(config, key):
    c = config

    def normal(shape, deviation, *paths):
        """By the keys of a layer, of one within it, and of its array."""
        return deviation * jax.random.normal(functools.reduce(key_at, paths, key), shape)

    def norm():
        return {"scale": jnp.ones(c.width), "bias": jnp.zeros(c.width)}

    features, hidden = c.width // c.heads, 4 * c.width
    into, out = c.width**-0.5, c.width**-0.5 / (2 * c.layers) ** 0.5

    def layer(block):
        attention = block + ".attention"
        return {"norm1": norm(),
                "query": normal((c.width, c.heads, features), into, attention, "query", "kernel"),
                "key": normal((c.width, c.heads, features), into, attention, "key", "kernel"),
                "value": normal((c.width, c.heads, features), into, attention, "value", "kernel"),
                "out": normal((c.heads, features, c.width), out, attention, "out", "kernel"),
                "norm2": norm(),
                "up": normal((c.width, hidden), into, block + ".up", "kernel"),
                "up_bias": jnp.zeros(hidden),
                "down": normal((hidden, c.width), out / 2, block + ".down", "kernel"),
                "down_bias": jnp.zeros(c.width)}

    return {"embedding": normal((c.vocabulary, c.width), 0.02, "tokens", "embedding"),
            "position": normal((c.context, c.width), 0.02, "positions", "embedding"),
            "layers": [layer(f"blocks[{i}]") for i in range(c.layers)],
            "norm": norm()}


def normalize(norm, x):
    return jax.nn.standardize(x, axis=-1, epsilon=1e-5) * norm["scale"] + norm["bias"]


def apply(layer, x):
    y = normalize(layer["norm1"], x)
    query, key, value = (jnp.einsum("btw,whf->bthf", y, layer[name]) for name in ("query", "key", "value"))
    seen = jax.nn.dot_product_attention(query, key, value, is_causal=True)
    x = x + jnp.einsum("bthf,hfw->btw", seen, layer["out"])
    y = jax.nn.gelu(normalize(layer["norm2"], x) @ layer["up"] + layer["up_bias"])
    return x + y @ layer["down"] + layer["down_bias"]


def logits(model, tokens):
    x = model["embedding"][tokens] + model["position"][: tokens.shape[1]]
    for layer in model["layers"]:
        x = apply(layer, x)
    return normalize(model["norm"], x) @ model["embedding"].T


def loss(model, tokens):
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits(model, tokens[:, :-1]), tokens[:, 1:]))


def optimizer(peak_rate, warmup, steps):
    rate = optax.warmup_cosine_decay_schedule(0, peak_rate, warmup, steps, peak_rate / 10)
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate, b1=0.9, b2=0.99, eps=1e-8, weight_decay=0.1))


def step(optimizer, loss, model, state, *batch):
    value, grads = jax.value_and_grad(loss)(model, *batch)
    updates, state = optimizer.update(grads, state, model)
    return optax.apply_updates(model, updates), state, value
