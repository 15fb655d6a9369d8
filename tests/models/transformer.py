"""examples/transformer.h in JAX: the same model, the same parameters from the same key, the same optimizer."""

import dataclasses

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


def init(config, key):
    c, keys = config, iter(jax.random.split(key, 2 + 6 * config.layers))

    def normal(shape, deviation):
        return deviation * jax.random.normal(next(keys), shape)

    def norm():
        return {"scale": jnp.ones(c.width), "bias": jnp.zeros(c.width)}

    features, hidden = c.width // c.heads, 4 * c.width
    into, out = c.width**-0.5, c.width**-0.5 / (2 * c.layers) ** 0.5
    model = {"embedding": normal((c.vocabulary, c.width), 0.02), "position": normal((c.context, c.width), 0.02)}
    model["layers"] = [
        {"norm1": norm(),
         "query": normal((c.width, c.heads, features), into),
         "key": normal((c.width, c.heads, features), into),
         "value": normal((c.width, c.heads, features), into),
         "out": normal((c.heads, features, c.width), out),
         "norm2": norm(),
         "up": normal((c.width, hidden), into),
         "up_bias": jnp.zeros(hidden),
         "down": normal((hidden, c.width), out / 2),
         "down_bias": jnp.zeros(c.width)} for _ in range(c.layers)]
    model["norm"] = norm()
    return model


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
