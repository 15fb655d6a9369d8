#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the files that jax_export_test.cc reads: functions exported by JAX, and JAX's numbers for them.

    python3 -m venv v && v/bin/pip install jax==0.10.2 jaxlib==0.10.2 flatbuffers && v/bin/python generate.py
"""

import dataclasses
import json
import os
import pathlib

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

assert jax.__version__ == "0.10.2", jax.__version__
FOLDER = pathlib.Path(__file__).parent
rng = np.random.default_rng(0)
cases = {}


def flat(tree):
    return [
        {"dtype": str(np.asarray(x).dtype), "shape": list(np.shape(x)), "values": np.ravel(np.asarray(x)).tolist()}
        for x in jax.tree.leaves(tree)
    ]


def shapes(tree):
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(np.shape(x), np.asarray(x).dtype, sharding=getattr(x, "sharding", None)), tree)


def add(name, f, arguments, vjp=False, **options):
    """Exports f, and writes its results for the arguments; with `vjp` the gradient of its first result, too."""
    exported = export.export(jax.jit(f), **options)(*shapes(arguments))
    (FOLDER / f"{name}.bin").write_bytes(exported.serialize(vjp_order=1 if vjp else 0))
    case = {"arguments": flat(arguments), "results": flat(jax.jit(f)(*arguments))}
    if vjp:
        case["gradient"] = flat(jax.grad(lambda first: f(first, *arguments[1:])[0])(arguments[0]))
    cases[name] = case


# A transformer of two layers and one step of its training, over two axes.
mesh = jax.make_mesh((2, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
VOCABULARY, WIDTH, HEADS, LENGTH, BATCH = 13, 8, 2, 6, 4


def on(spec, x):
    return jax.device_put(x, NamedSharding(mesh, spec))


def weight(*shape):
    return (rng.integers(-32, 32, shape) / 64).astype(np.float32)


def layer():
    return {
        "in": on(P(None, "model"), weight(WIDTH, 2 * WIDTH)),
        "out": on(P("model", None), weight(2 * WIDTH, WIDTH)),
        "qkv": on(P(None, None, "model"), weight(WIDTH, 3, HEADS, WIDTH // HEADS).reshape(WIDTH, 3, WIDTH)),
        "scale": on(P(), 1 + weight(WIDTH)),
    }


params = {"embed": on(P(), weight(VOCABULARY, WIDTH)), "layers": [layer(), layer()]}
tokens = on(P("data"), rng.integers(0, VOCABULARY, (BATCH, LENGTH + 1)).astype(np.int32))


def normalized(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def block(x, p):
    q, k, v = jnp.moveaxis(jnp.einsum("bld,dke->blke", normalized(x, p["scale"]), p["qkv"]), 2, 0)
    split = lambda t: t.reshape(*t.shape[:2], HEADS, WIDTH // HEADS)
    scores = jnp.einsum("bqhd,bkhd->bhqk", split(q), split(k)) / np.sqrt(WIDTH // HEADS)
    causal = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
    x = x + jnp.einsum("bhqk,bkhd->bqhd", weights, split(v)).reshape(x.shape)
    h = jax.lax.with_sharding_constraint(normalized(x, p["scale"]) @ p["in"], NamedSharding(mesh, P("data", None, "model")))
    return x + jax.nn.gelu(h) @ p["out"]


def loss(params, tokens):
    x = params["embed"][tokens[:, :-1]]
    for p in params["layers"]:
        x = block(x, p)
    logits = jax.nn.log_softmax(x @ params["embed"].T)
    picked = jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1)
    return -jnp.mean(picked), jnp.sum(tokens)


def step(params, tokens):
    (value, _), gradient = jax.value_and_grad(loss, has_aux=True)(params, tokens)
    return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient)


add("transformer_step", step, (params, tokens))
add("transformer_loss", loss, (params, tokens), vjp=True)

# Operations of every kind, for one device.
x = weight(4, 6)


def operations(x, image, indices):
    counted = jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x))[1]
    summed = jax.lax.scan(lambda c, row: (c + row, c * row), jnp.zeros(6), x)
    chosen = jax.lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x)
    switched = jax.lax.switch(indices[0], [jnp.exp, jnp.tanh, jnp.abs], x)
    convolved = jax.lax.conv_general_dilated(image, jnp.ones((3, 2, 2, 2)) / 7, (1, 1), "SAME")
    pooled = jax.lax.reduce_window(image, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    mask = jnp.array([True, False, True, True])
    return {
        "arg": (jnp.argmax(x, axis=1), jnp.argmin(x, axis=0)),
        "bits": (jnp.bitwise_xor(indices, 5), jax.lax.population_count(indices), indices >> 1, ~indices),
        "cast": (x.astype(jnp.bfloat16), x.astype(jnp.int8), jax.lax.bitcast_convert_type(x, jnp.uint32)),
        "chosen": (chosen, switched),
        "complex": jnp.abs(jnp.fft.fft(x)),
        "constants": (jnp.array([1.5, -2.0, 3.25]), jnp.arange(6) % 4, mask, jnp.where(mask[:, None], x, 0)),
        "conv": convolved,
        "loops": (counted, summed),
        "pooled": pooled,
        "reduced": (x.prod(), x.max(0), (x > 0).any(0), (x > -1).all(1), jnp.cumsum(x, axis=1)),
        "scattered": (x.at[indices].add(1.0), x.at[indices, 0].set(9.0), x.at[0].max(0.25)),
        "shapes": (jnp.flip(x, 1), jnp.pad(x, ((1, 2), (0, 1)), constant_values=3), jnp.roll(x, 2, 1), jnp.clip(x, -0.2, 0.2)),
        "sorted": (jnp.sort(x, axis=1), jnp.argsort(x, axis=0)),
        "special": (jax.scipy.special.erf(x), jax.nn.sigmoid(x), jnp.log1p(x * x), jnp.expm1(x), jnp.round(x * 3), jnp.arctan2(x, 1 + x)),
        "taken": (jnp.take(x, indices, axis=0), x[indices, indices]),
    }


add("operations", operations, (x, weight(1, 2, 4, 4), np.array([2, 0, 3], np.int32)))
add("two_platforms", lambda x: jax.lax.platform_dependent(x, cpu=lambda x: x + 1, tpu=lambda x: x + 2), (x,), platforms=["tpu", "cpu"])

# Exports that are refused.
small = jax.ShapeDtypeStruct((4,), jnp.float32)
write = lambda name, exported: (FOLDER / f"{name}.bin").write_bytes(exported.serialize())
write("for_tpu", export.export(jax.jit(jnp.sin), platforms=["tpu"])(small))
(rows,) = export.symbolic_shape("rows")
write("symbolic", export.export(jax.jit(jnp.sin))(jax.ShapeDtypeStruct((rows, 2), jnp.float32)))
write("int4", export.export(jax.jit(lambda x: x))(jax.ShapeDtypeStruct((4,), jnp.int4)))


class Shouting(jax._src.effects.Effect):
    def __eq__(self, other):
        return isinstance(other, Shouting)

    def __hash__(self):
        return 1


effects = export.export(jax.jit(jnp.sin))(small)
write("effects", dataclasses.replace(effects, unordered_effects=(Shouting(),)))

(FOLDER / "cases.json").write_text(json.dumps(cases) + "\n")
