#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/models/losses.json: the losses of the first 50 steps of three models in JAX, for models_test.cc.

Run it with JAX and optax at the versions below (they are checked), after scripts/setup, which fetches the digits:
    python3 -m venv v && v/bin/pip install jax==0.10.2 jaxlib==0.10.2 optax==0.2.8 && v/bin/python tests/models/generate.py
The parameters come from keys, so that the file holds nothing but losses. It is the same on each run on one machine;
another CPU may round the last digits otherwise.
"""

import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import optax
import transformer

VERSIONS = {"jax": "0.10.2", "jaxlib": "0.10.2", "optax": "0.2.8"}
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
STEPS, ROWS = 50, 32
DIGITS = np.loadtxt(ROOT / "third_party/data/digits.csv.gz", delimiter=",", dtype=np.float32)


def digits(step):
    """Images of 64 numbers from 0 to 1, and labels."""
    rows = DIGITS[step * ROWS : (step + 1) * ROWS]
    return rows[:, :64] / 16, rows[:, 64].astype(np.int32)


def cross_entropy(logits, labels):
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, labels))


def dense(key, inputs, outputs):
    return {"w": (2 / inputs) ** 0.5 * jax.random.normal(key, (inputs, outputs)), "b": jnp.zeros(outputs)}


def mlp():
    keys = jax.random.split(jax.random.key(1), 3)
    layers = [dense(k, n, m) for k, n, m in zip(keys, (64, 128, 64), (128, 64, 10))]

    def loss(layers, images, labels):
        x = images
        for layer in layers[:-1]:
            x = jnp.tanh(x @ layer["w"] + layer["b"])
        return cross_entropy(x @ layers[-1]["w"] + layers[-1]["b"], labels)

    return loss, layers, optax.adam(2e-3), digits


def convolutional():
    k1, k2, k3 = jax.random.split(jax.random.key(2), 3)
    model = {"first": (2 / 9) ** 0.5 * jax.random.normal(k1, (3, 3, 1, 16)),
             "second": (2 / 144) ** 0.5 * jax.random.normal(k2, (3, 3, 16, 32)),
             "last": dense(k3, 128, 10)}

    def conv(x, kernel, strides):
        return jax.lax.conv_general_dilated(x, kernel, strides, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def loss(model, images, labels):
        x = jax.nn.relu(conv(images.reshape(-1, 8, 8, 1), model["first"], (1, 1)))
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = jax.nn.relu(conv(x, model["second"], (1, 1)))
        x = jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
        x = x.reshape(x.shape[0], -1)
        return cross_entropy(x @ model["last"]["w"] + model["last"]["b"], labels)

    return loss, model, optax.sgd(0.05, momentum=0.9), digits


def language():
    config = transformer.Config(vocabulary=32, context=16, width=32, heads=4, layers=2)
    model = transformer.init(config, jax.random.key(3))

    def counting(step):
        """Rows that count modulo 32 from any number in steps of 1 to 4."""
        first, stride = jax.random.split(jax.random.fold_in(jax.random.key(4), step))
        start = jax.random.randint(first, (8, 1), 0, 32)
        return ((start + jax.random.randint(stride, (8, 1), 1, 5) * jnp.arange(17)) % 32,)

    return transformer.loss, model, transformer.optimizer(1e-2, 10, STEPS), counting


def losses(loss, model, optimizer, batch):
    step = jax.jit(functools.partial(transformer.step, optimizer, loss))
    state, values = optimizer.init(model), []
    for i in range(STEPS):
        model, state, value = step(model, state, *batch(i))
        values.append(float(value))
    return values


def main():
    for package, version in VERSIONS.items():
        found = __import__(package).__version__
        assert found == version, f"{package} is {found}, and {version} is needed"
    found = {function.__name__: losses(*function()) for function in (mlp, convolutional, language)}
    text = ",\n".join(f' "{name}": [\n  ' + ",\n  ".join(
        ", ".join(f"{x:.8g}" for x in values[i : i + 10]) for i in range(0, STEPS, 10)) + "]"
        for name, values in found.items())
    (pathlib.Path(__file__).parent / "losses.json").write_text("{\n" + text + "\n}\n")


main()
