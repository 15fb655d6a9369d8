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


def main():
    check_versions(VERSIONS)
    norms()
    convolutions()
    write("model_layers.json")


main()
