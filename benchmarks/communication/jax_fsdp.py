# SPDX-License-Identifier: Apache-2.0
"""FSDP of whole models, as programs_fsdp.cc."""
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import PartitionSpec as P

from jax_common import F32, I32, Placed, program

# Models as they come from PyTorch, every parameter split by P("data"), scales of norms, biases and statistics, too.

ROWS, TOKENS, WIDTH, HIDDEN, VOCABULARY, HEADS = 16, 128, 256, 512, 2048, 8


def fsdp(loss, parameters, *inputs, state=None):
    """The step of a loss that also returns a state. Parameters and state: trees of shapes."""
    at = Placed(data=8)
    split = P("data")

    def arrays(tree):
        return jax.tree.map(lambda shape: at(shape, split), tree, is_leaf=lambda x: isinstance(x, tuple))

    def step(model, state, *inputs):
        (value, state), grads = jax.value_and_grad(loss, has_aux=True)(model, state, *inputs)
        return jax.tree.map(lambda p, g: p - 1e3 * g, model, grads), state, value

    arguments = [at(shape, split, dtype) for shape, dtype in inputs]
    return step, (arrays(parameters), arrays(state), *arguments), at.on(split, split, P())


def heads_of(x, heads):
    return x.reshape(*x.shape[:2], heads, x.shape[2] // heads)


def rotary(x):
    half = x.shape[3] // 2
    rates = jnp.exp(jnp.arange(half) * (-np.log(10000) / half))
    angles = (jnp.arange(x.shape[1])[:, None] * rates)[:, None]
    first, second = jnp.split(x, 2, -1)
    return jnp.concatenate([first * jnp.cos(angles) - second * jnp.sin(angles),
                            second * jnp.cos(angles) + first * jnp.sin(angles)], -1)


def rms_norm(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-6) * scale


def cross_entropy(logits, labels):
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, labels))


@program("Llama, fsdp of all parameters")
def llama():
    def loss(model, state, tokens):
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        x = jnp.take(model["embedding"], inputs, axis=0)
        for layer in model["layers"]:
            y = rms_norm(x, layer["attention_norm"])
            query = rotary(heads_of(y @ layer["query"].T, HEADS))
            key = rotary(heads_of(y @ layer["key"].T, 2))
            value = heads_of(y @ layer["value"].T, 2)
            seen = jax.nn.dot_product_attention(query, key, value, is_causal=True)
            x = x + seen.reshape(x.shape) @ layer["out"].T
            z = rms_norm(x, layer["mlp_norm"])
            x = x + (jax.nn.silu(z @ layer["gate"].T) * (z @ layer["up"].T)) @ layer["down"].T
        return cross_entropy(rms_norm(x, model["norm"]) @ model["head"].T, targets), state

    keys = (WIDTH // 4, WIDTH)
    layer = {"attention_norm": (WIDTH,), "query": (WIDTH, WIDTH), "key": keys, "value": keys, "out": (WIDTH, WIDTH),
             "mlp_norm": (WIDTH,), "gate": (HIDDEN, WIDTH), "up": (HIDDEN, WIDTH), "down": (WIDTH, HIDDEN)}
    model = {"embedding": (VOCABULARY, WIDTH), "layers": [layer, layer], "norm": (WIDTH,), "head": (VOCABULARY, WIDTH)}
    return fsdp(loss, model, ((ROWS, TOKENS + 1), I32))


def affine(out, into):
    return {"weight": (out, into), "bias": (out,)}


def linear(x, by):
    return x @ by["weight"].T + by["bias"]


def layer_norm(x, by):
    return jax.nn.standardize(x, axis=-1, epsilon=1e-12) * by["weight"] + by["bias"]


@program("BERT, fsdp of all parameters")
def bert():
    def loss(model, state, tokens, present, labels):
        mask = (present != 0)[:, None, None, :]
        x = layer_norm(jnp.take(model["tokens"], tokens, axis=0) + model["positions"][:TOKENS], model["norm"])
        for layer in model["layers"]:
            query, key, value = (heads_of(linear(x, layer[name]), HEADS) for name in ("query", "key", "value"))
            seen = jax.nn.dot_product_attention(query, key, value, mask=mask)
            x = layer_norm(x + linear(seen.reshape(x.shape), layer["out"]), layer["norm1"])
            hidden = jax.nn.gelu(linear(x, layer["up"]), approximate=False)
            x = layer_norm(x + linear(hidden, layer["down"]), layer["norm2"])
        pooled = jnp.tanh(linear(x[:, 0], model["pooler"]))
        return cross_entropy(linear(pooled, model["classifier"]), labels % 8), state

    norm, square = {"weight": (WIDTH,), "bias": (WIDTH,)}, affine(WIDTH, WIDTH)
    layer = {"query": square, "key": square, "value": square, "out": square, "norm1": norm,
             "up": affine(HIDDEN, WIDTH), "down": affine(WIDTH, HIDDEN), "norm2": norm}
    model = {"tokens": (VOCABULARY, WIDTH), "positions": (2 * TOKENS, WIDTH), "norm": norm, "layers": [layer, layer],
             "pooler": square, "classifier": affine(8, WIDTH)}
    tokens = ((ROWS, TOKENS), I32)
    return fsdp(loss, model, tokens, tokens, ((ROWS,), I32))


@program("ResNet, fsdp of all parameters")
def resnet():
    def conv(x, kernel, stride=1):
        return jax.lax.conv_general_dilated(x, kernel, (stride, stride), "SAME",
                                            dimension_numbers=("NHWC", "OIHW", "NHWC"))

    def loss(model, before, images, labels):
        after = []

        def normalized(x, by):
            mean = jnp.mean(x, (0, 1, 2))
            variance = jnp.mean(jnp.square(x), (0, 1, 2)) - jnp.square(mean)
            old_mean, old_variance = before[len(after)]
            after.append([0.9 * old_mean + 0.1 * mean, 0.9 * old_variance + 0.1 * variance])
            return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * by["scale"] + by["bias"]

        x = jax.nn.relu(normalized(conv(images, model["stem"]), model["norm"]))
        for block, stride in zip(model["blocks"], (1, 2)):
            y = jax.nn.relu(normalized(conv(x, block["conv1"], stride), block["norm1"]))
            y = normalized(conv(y, block["conv2"]), block["norm2"])
            x = jax.nn.relu(y + normalized(conv(x, block["shortcut"], stride), block["shortcut_norm"]))
        return cross_entropy(linear(jnp.mean(x, (1, 2)), model["head"]), labels % 16), after

    def norm(n):
        return {"scale": (n,), "bias": (n,)}

    def block(into, out):
        return {"conv1": (out, into, 3, 3), "norm1": norm(out), "conv2": (out, out, 3, 3), "norm2": norm(out),
                "shortcut": (out, into, 1, 1), "shortcut_norm": norm(out)}

    model = {"stem": (32, 3, 3, 3), "norm": norm(32), "blocks": [block(32, 32), block(32, 64)], "head": affine(16, 64)}
    moving = [[(n,), (n,)] for n in (32, 32, 32, 32, 64, 64, 64)]
    return fsdp(loss, model, ((32, 32, 32, 3), F32), ((32,), I32), state=moving)
