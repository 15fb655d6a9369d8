#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/models/programs.json: what three of the examples print and draw, computed by JAX, for programs_test.cc.

The models of examples/train_vit.cc, train_gpt.cc and train_diffusion.cc are written here in JAX, with the parameters
from the same keys, the batches in the loader's order, and the sizes that programs_test.cc gives. Run it with JAX and
optax at the versions below (they are checked), after scripts/setup, which fetches the digits and the text:
    python3 -m venv v && v/bin/pip install jax==0.10.2 jaxlib==0.10.2 optax==0.2.8 xxhash==3.6.0
    v/bin/python tests/models/programs.py
"""

import functools
import gzip
import json
import math
import pathlib

import jax
import jax.numpy as jnp
import loader
import numpy as np
import optax
from jax.nn import initializers as init
from transformer import key_at

VERSIONS = {"jax": "0.10.2", "jaxlib": "0.10.2", "optax": "0.2.8"}
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DIGITS = np.loadtxt(ROOT / "third_party/data/digits.csv.gz", delimiter=",", dtype=np.float32)
IMAGES, LABELS = DIGITS[:, :64].reshape(-1, 8, 8, 1) / 16, DIGITS[:, 64].astype(np.int32)
TEXT = np.frombuffer(gzip.decompress((ROOT / "third_party/data/devil.dict.dz").read_bytes()), np.uint8)


def array(initializer, shape, *paths):
    """By the paths of a layer, of one within it, and of its array: as nn::init(model, random::key(0)) makes it."""
    return initializer(functools.reduce(key_at, paths, jax.random.key(0)), shape)


def linear(inputs, outputs, *paths, bias=True):
    """inputs and outputs: tuples."""
    matrix = array(init.lecun_normal(), (math.prod(inputs), math.prod(outputs)), *paths, "kernel")
    return {"kernel": matrix.reshape(inputs + outputs)} | ({"bias": jnp.zeros(outputs)} if bias else {})


def conv(size, inputs, outputs, path):
    return {"kernel": array(init.lecun_normal(), (size, size, inputs, outputs), path, "kernel"), "bias": jnp.zeros(outputs)}


def embedding(count, features, path):
    return array(init.variance_scaling(1.0, "fan_in", "normal", out_axis=0), (count, features), path, "embedding")


def attention(width, heads, path, bias=True):
    split = {name: linear((width,), (heads, width // heads), path, name, bias=bias) for name in ("query", "key", "value")}
    return split | {"out": linear((heads, width // heads), (width,), path, "out", bias=bias)}


def norm(width):
    return {"scale": jnp.ones(width), "bias": jnp.zeros(width)}


def dense(p, x, axes=1):
    return jnp.tensordot(x, p["kernel"], axes) + p.get("bias", 0)


def convolve(p, x, stride=1):
    return jax.lax.conv_general_dilated(x, p["kernel"], (stride, stride), "SAME",
                                        dimension_numbers=("NHWC", "HWIO", "NHWC")) + p["bias"]


def normalize(p, x):
    return jax.nn.standardize(x, axis=-1, epsilon=1e-6) * p["scale"] + p["bias"]


def rms_normalize(scale, x):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def attend(p, x, causal=False, turn=lambda x: x):
    query, key, value = (dense(p[name], x) for name in ("query", "key", "value"))
    return dense(p["out"], jax.nn.dot_product_attention(turn(query), turn(key), value, is_causal=causal), 2)


def rotary(x, base=10000):
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None, None] * base ** -(jnp.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * jnp.cos(angles) - b * jnp.sin(angles), b * jnp.cos(angles) + a * jnp.sin(angles)], -1)


def cross_entropy(logits, labels):
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, labels))


def train(model, loss, optimizer, batches, steps):
    """The losses and the trained model; loss(model, key of the step, *batch)."""

    @jax.jit
    def step(model, state, i, *batch):
        value, grads = jax.value_and_grad(loss)(model, jax.random.fold_in(jax.random.key(1), i), *batch)
        updates, state = optimizer.update(grads, state, model)
        return optax.apply_updates(model, updates), state, value

    state, values = optimizer.init(model), []
    for i in range(steps):
        model, state, value = step(model, state, i, *next(batches))
        values.append(float(f"{value:.8g}"))
    return values, model


def digits(count, size):
    """Batches of the first `count` digits."""
    for rows in loader.batches(count, size, seed=1):
        yield IMAGES[rows], LABELS[rows]


def train_vit(width=16, heads=2, layers=2, rate=2e-3, batch=128, dropout=0.1):
    steps = 1438 // batch

    def block(path):
        return {"norm1": norm(width), "attention": attention(width, heads, path + ".attention"), "norm2": norm(width),
                "up": linear((width,), (4 * width,), path + ".up"), "down": linear((4 * width,), (width,), path + ".down")}

    model = {"patches": conv(2, 1, width, "patches"),
             "positions": array(init.normal(0.02), (16, width), "positions", "embedding"),
             "blocks": [block(f"blocks[{i}]") for i in range(layers)], "norm": norm(width),
             "head": linear((width,), (10,), "head")}

    def drop(x, key):
        return jnp.where(jax.random.bernoulli(key, 1 - dropout, x.shape), x / (1 - dropout), 0)

    def loss(model, key, images, labels):
        patches = jax.lax.conv_general_dilated(images, model["patches"]["kernel"], (2, 2), "VALID",
                                               dimension_numbers=("NHWC", "HWIO", "NHWC")) + model["patches"]["bias"]
        x = patches.reshape(-1, 16, width) + model["positions"]
        for i, p in enumerate(model["blocks"]):
            at = functools.partial(key_at, key_at(key, f"blocks[{i}]"))
            x = x + drop(attend(p["attention"], normalize(p["norm1"], x)), at("attention"))
            x = x + drop(dense(p["down"], jax.nn.gelu(dense(p["up"], normalize(p["norm2"], x)))), at("mlp"))
        return cross_entropy(dense(model["head"], normalize(model["norm"], jnp.mean(x, 1))), labels)

    schedule = optax.warmup_cosine_decay_schedule(0, rate, max(1, steps // 10), steps)
    return train(model, loss, optax.adamw(schedule, weight_decay=0.05), digits(1438, batch), steps)[0]


def train_gpt(width=32, heads=4, layers=2, context=16, batch=8, rate=3e-3, steps=12):
    def block(path):
        return {"norm1": jnp.ones(width), "attention": attention(width, heads, path + ".attention", bias=False),
                "norm2": jnp.ones(width), "gate": linear((width,), (3 * width,), path + ".gate", bias=False),
                "up": linear((width,), (3 * width,), path + ".up", bias=False),
                "down": linear((3 * width,), (width,), path + ".down", bias=False)}

    model = {"tokens": embedding(256, width, "tokens"), "blocks": [block(f"blocks[{i}]") for i in range(layers)],
             "norm": jnp.ones(width)}

    def loss(model, key, tokens):
        x = model["tokens"][tokens[:, :-1]]
        for p in model["blocks"]:
            x = x + attend(p["attention"], rms_normalize(p["norm1"], x), causal=True, turn=rotary)
            y = rms_normalize(p["norm2"], x)
            x = x + dense(p["down"], jax.nn.silu(dense(p["gate"], y)) * dense(p["up"], y))
        return cross_entropy(rms_normalize(model["norm"], x) @ model["tokens"].T, tokens[:, 1:])

    def windows():
        training = TEXT[: len(TEXT) - len(TEXT) // 20].astype(np.int32)
        for rows in loader.batches(len(training) - context, batch, seed=1):
            yield (np.stack([training[i : i + context + 1] for i in rows]),)

    schedule = optax.warmup_cosine_decay_schedule(0, rate, min(50, steps // 2), steps, rate / 10)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, b1=0.9, b2=0.99, weight_decay=0.1))
    return train(model, loss, optimizer, windows(), steps)[0]


def train_diffusion(width=8, batch=32, rate=2e-3, steps=20, denoising_steps=4):
    """The losses, and the pixels of a row of the ten digits, each once."""
    wide = 2 * width

    def block(features, path):
        return {"norm1": norm(features), "conv1": conv(3, features, features, path + ".conv1"),
                "told": linear((wide,), (features,), path + ".told"), "norm2": norm(features),
                "conv2": conv(3, features, features, path + ".conv2")}

    model = {"time1": linear((32,), (wide,), "time1"), "time2": linear((wide,), (wide,), "time2"),
             "digits": embedding(10, wide, "digits"), "first": conv(3, 1, width, "first"), "down": block(width, "down"),
             "half": conv(3, width, wide, "half"), "middle": block(wide, "middle"), "whole": conv(3, wide, width, "whole"),
             "up": block(width, "up"), "norm": norm(width),
             "last": {"kernel": jnp.zeros((3, 3, width, 1)), "bias": jnp.zeros(1)}}
    silu = jax.nn.silu

    def apply(p, x, about):
        y = convolve(p["conv1"], silu(normalize(p["norm1"], x))) + dense(p["told"], about)[:, None, None]
        return x + convolve(p["conv2"], silu(normalize(p["norm2"], y)))

    def unet(p, noisy, time, digit):
        angles = time[:, None] * jnp.exp(jnp.arange(16.0) * (math.log(100) / 16))
        waves = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], 1)
        about = silu(dense(p["time2"], silu(dense(p["time1"], waves))) + p["digits"][digit])
        large = apply(p["down"], convolve(p["first"], noisy), about)
        small = apply(p["middle"], convolve(p["half"], large, 2), about)
        again = jnp.repeat(jnp.repeat(small, 2, 1), 2, 2)
        return convolve(p["last"], silu(normalize(p["norm"], apply(p["up"], convolve(p["whole"], again) + large, about))))

    def loss(model, key, images, labels):
        clean = 2 * images - 1
        time_key, noise_key = jax.random.split(key)
        time = jax.random.uniform(time_key, (batch,))
        noise = jax.random.normal(noise_key, clean.shape)
        angle = time.reshape(-1, 1, 1, 1) * (math.pi / 2)
        direction = unet(model, jnp.cos(angle) * clean + jnp.sin(angle) * noise, time, labels)
        return jnp.mean((direction - (jnp.cos(angle) * noise - jnp.sin(angle) * clean)) ** 2)

    schedule = optax.warmup_cosine_decay_schedule(0, rate, max(1, steps // 20), steps)
    losses, model = train(model, loss, optax.adam(schedule), digits(1797, batch), steps)

    x = jax.random.normal(jax.random.key(2), (10, 8, 8, 1))
    for i in range(denoising_steps):
        angle, following = (math.pi / 2 * (1 - (i + k) / denoising_steps) for k in (0, 1))
        direction = unet(model, x, jnp.full(10, 1 - i / denoising_steps), jnp.arange(10))
        clean = jnp.clip(math.cos(angle) * x - math.sin(angle) * direction, -1, 1)
        x = math.cos(following) * clean + math.sin(following) * (math.sin(angle) * x + math.cos(angle) * direction)
    picture = jnp.pad(x.reshape(10, 8, 8), ((0, 0), (1, 1), (1, 1)), constant_values=-1)
    return losses, np.asarray(jnp.round(127.5 * (picture.transpose(1, 0, 2) + 1))).astype(int).ravel().tolist()


def main():
    for package, version in VERSIONS.items():
        found = __import__(package).__version__
        assert found == version, f"{package} is {found}, and {version} is needed"
    losses, picture = train_diffusion()
    found = {"train_vit": train_vit(), "train_gpt": train_gpt(), "train_diffusion": losses, "picture": picture}
    text = ",\n".join(f'"{name}": {json.dumps(values)}' for name, values in found.items())
    (pathlib.Path(__file__).parent / "programs.json").write_text("{\n" + text + "\n}\n")


if __name__ == "__main__":
    main()
