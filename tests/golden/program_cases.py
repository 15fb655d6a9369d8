# SPDX-License-Identifier: Apache-2.0
"""Cases of control flow, random numbers, attention and optimizers. generate.py calls `cases`."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax


def inputs(rng, grid):
    return {
        "key": np.array([0, 42], np.uint32),
        "steps": np.array([0, 1, 3, 5, 9, 10, 14, 40], np.int32),
        "cells": grid(-1, 1, (6, 6)),
        "sequence": grid(-1, 1, (4, 6)),
        "logits": grid(-2, 2, (4, 6)),
        "seen": (rng.integers(0, 3, (2, 2, 4, 4)) > 0) | np.eye(4, dtype=bool),
        "bias": grid(-1, 1, (2, 2, 4, 4)),
        "one_head": grid(-1, 1, (2, 4, 1, 3)),
        "w": grid(-1, 1, (4, 6)),
        "b": grid(-1, 1, (6,)),
    }


def control_flow(case):
    def grows(x):  # how often it runs depends on the values
        return lax.while_loop(lambda c: jnp.sum(jnp.abs(c)) < 40, lambda c: c * 1.5 + 0.125, x)

    def recurrent(w, x):
        def step(h, v):
            h = jnp.tanh(w @ h + v)
            return h, h.sum()
        h, sums = lax.scan(step, jnp.zeros(6), x)
        return h, sums

    def backwards(x):
        return lax.scan(lambda c, v: (c * 0.5 + v, c), jnp.ones(6), x, reverse=True)

    branches = [jnp.sin, lambda x: x * x, lambda x: -x]

    @jax.custom_jvp
    def softplus(x):
        return jnp.log(1 + jnp.exp(x))

    softplus.defjvp(lambda x, t: (softplus(*x), 3 * t[0] * x[0]))

    @jax.custom_vjp
    def clipped(x):
        return x * 2

    clipped.defvjp(lambda x: (x * 2, x), lambda x, ct: (jnp.clip(ct, -0.5, 0.5) * x,))

    case("cond", lambda x: lax.cond(x.sum() > 0, jnp.sin, lambda x: x * 2, x), "x")
    case("cond(false)", lambda x: lax.cond(x.sum() > 99, jnp.sin, lambda x: x * 2, x), "x")
    case("switch_", lambda i, x: lax.switch(i[0], branches, x), "one", "x")
    case("while_loop", grows, "x", diff="forwards")
    case("fori_loop", lambda x: lax.fori_loop(0, 5, lambda i, c: jnp.sin(c) + i * x, x), "x")
    case("fori_loop(bounds of arrays)", lambda x, n: lax.fori_loop(n[0] - 1, n[0] + 2, lambda i, c: c * x + i, x), "x",
         "one", diff="forwards")
    case("scan", recurrent, "cells", "sequence")
    case("scan(reverse)", backwards, "x")
    case("map", lambda x: lax.map(lambda v: jnp.cumsum(jnp.exp(v)), x), "x")
    case("remat", lambda x: jax.checkpoint(lambda x: jnp.sin(jnp.exp(x)))(x) * x, "x")
    case("stop_gradient", lambda x: x * lax.stop_gradient(x), "x", ulp=2)
    case("custom_jvp", softplus, "x")
    case("custom_vjp", clipped, "x", diff="backwards", ulp=2)
    case("scan(of a remat of a cond)", lambda x: lax.scan(
        lambda c, v: (jax.checkpoint(lambda c, v: lax.cond(v.sum() > 0, jnp.sin, jnp.cos, c * v))(c, v), c[0]),
        jnp.ones(6), x), "x")


def random(case):
    r, exact, close = jax.random, dict(diff=False, exact=True), dict(diff=False)
    shape = (4, 6)
    case("random::key", lambda: r.PRNGKey(1 << 30 | 7), **exact)
    case("random::split", lambda k: r.split(k, 3), "key", **exact)
    case("random::fold_in", lambda k: r.fold_in(k, 7), "key", **exact)
    for dtype in ["uint8", "uint16", "uint32"]:
        case(f"random::bits({dtype})", lambda k, d=dtype: r.bits(k, shape, d), "key", **exact)
    case("random::uniform", lambda k: r.uniform(k, shape), "key", **exact)
    case("random::uniform(bf16)", lambda k: r.uniform(k, shape, jnp.bfloat16), "key", **exact)
    case("random::uniform(-3, 5)", lambda k: r.uniform(k, shape, minval=-3.0, maxval=5.0), "key", **exact)
    case("random::randint", lambda k: r.randint(k, shape, -5, 100), "key", **exact)
    case("random::randint(bounds of arrays)", lambda k, x: r.randint(k, shape, x - 3, x + 9), "key", "ints", **exact)
    case("random::bernoulli", lambda k: r.bernoulli(k, 0.3, shape), "key", **exact)
    case("random::bernoulli(p of an array)", lambda k, p: r.bernoulli(k, p), "key", "probabilities", **exact)
    case("random::categorical", lambda k, x: r.categorical(k, x), "key", "logits", **exact)
    case("random::permutation", lambda k: r.permutation(k, 10), "key", **exact)
    case("random::permutation(array)", lambda k, x: r.permutation(k, x, axis=1), "key", "x", **exact)
    case("random::choice", lambda k: r.choice(k, 10, shape), "key", **exact)
    case("random::choice(p)", lambda k, p: r.choice(k, 6, shape, p=p[0]), "key", "probabilities", **exact)
    case("random::choice(without replacement)", lambda k: r.choice(k, 10, (6,), replace=False), "key", **exact)
    case("random::choice(array)", lambda k, x: r.choice(k, x, (4,)), "key", "x", **exact)
    case("random::normal", lambda k: r.normal(k, shape), "key", **close)
    case("random::truncated_normal", lambda k: r.truncated_normal(k, -1.0, 2.0, shape), "key", **close)
    for name in ["gumbel", "exponential", "laplace", "logistic", "cauchy"]:
        case("random::" + name, lambda k, f=getattr(r, name): f(k, shape), "key", **close)
    case("random::pareto", lambda k: r.pareto(k, 1.5, shape), "key", **close)
    case("random::weibull_min", lambda k: r.weibull_min(k, 2.0, 1.5, shape), "key", **close)
    case("random::lognormal", lambda k: r.lognormal(k, 0.5, shape), "key", **close)
    case("random::gamma", r.gamma, "key", "positive")
    case("random::loggamma", r.loggamma, "key", "positive")
    case("random::beta", lambda k, a, b: r.beta(k, a, b), "key", "positive", "above")
    case("random::dirichlet", lambda k, a: r.dirichlet(k, a, (2, 4)), "key", "positive")
    case("random::chisquare", r.chisquare, "key", "above")
    case("random::t", r.t, "key", "above")
    case("random::poisson", lambda k, rate: r.poisson(k, rate * 8), "key", "positive", **exact)
    case("random::rademacher", lambda k: r.rademacher(k, shape, jnp.int32), "key", **exact)
    case("random::dropout", lambda k, x: jnp.where(r.bernoulli(k, 0.75, x.shape), x / 0.75, 0), "key", "x", ulp=2)


def attention(case):
    f, heads = jax.nn.dot_product_attention, ("heads", "keys", "values")
    name = "nn::dot_product_attention"
    case(name + "(mask)", lambda q, k, v, m: f(q, k, v, mask=m), *heads, "seen")
    case(name + "(bias, scale)", lambda q, k, v, b: f(q, k, v, bias=b, scale=0.5), *heads, "bias")
    case(name + "(a key head for two)", f, "heads", "one_head", "one_head")
    case("nn::cosine_distance", optax.cosine_distance, "x", "y")


def optimizers(case):
    def steps(optimizer):
        """Five steps of gradients that the parameters and the step decide."""
        def run(w, b):
            params = {"b": b, "w": w}
            state = optimizer.init(params)
            for i in range(5):
                grads = jax.tree.map(lambda p: p * 0.5 - (i + 1) * 0.125, params)
                updates, state = optimizer.update(grads, state, params)
                params = optax.apply_updates(params, updates)
            return params["w"], params["b"]
        return run

    schedule = optax.linear_schedule(0.5, 0.125, 4)
    for name, optimizer in {
        "sgd": optax.sgd(0.25),
        "sgd(momentum)": optax.sgd(0.25, 0.9),
        "sgd(nesterov)": optax.sgd(0.25, 0.9, nesterov=True),
        "sgd(schedule)": optax.sgd(schedule),
        "adam": optax.adam(0.125),
        "adamw": optax.adamw(0.125, weight_decay=0.25),
        "adamw(mask)": optax.adamw(schedule, weight_decay=0.25, mask={"b": False, "w": True}),
        "lion": optax.lion(0.125, weight_decay=0.25),
        "rmsprop": optax.rmsprop(0.125),
        "adagrad": optax.adagrad(0.5),
        "chain(clip_by_global_norm, adam)": optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.125)),
        "chain(clip, trace, scale)": optax.chain(optax.clip(0.25), optax.trace(0.5), optax.scale(-0.5)),
        "multi_steps": optax.MultiSteps(optax.adam(0.125), 2),
    }.items():
        case("optim::" + name, steps(optimizer), "w", "b", diff=False)
    case("optim::global_norm", lambda w, b: optax.global_norm([w, b]), "w", "b")
    for name, each in {
        "constant_schedule": optax.constant_schedule(0.25),
        "linear_schedule": optax.linear_schedule(1.0, 0.25, 8, 2),
        "polynomial_schedule": optax.polynomial_schedule(1.0, 0.25, 2, 8, 2),
        "exponential_decay": optax.exponential_decay(1.0, 4, 0.5, 2),
        "exponential_decay(staircase)": optax.exponential_decay(1.0, 4, 0.5, staircase=True, end_value=0.125),
        "cosine_decay_schedule": optax.cosine_decay_schedule(1.0, 10, 0.125),
        "warmup_cosine_decay_schedule": optax.warmup_cosine_decay_schedule(0.0, 1.0, 4, 14, 0.125),
        "piecewise_constant_schedule": optax.piecewise_constant_schedule(1.0, {3: 0.5, 10: 0.25}),
        "join_schedules": optax.join_schedules([optax.linear_schedule(0.0, 1.0, 5), optax.constant_schedule(0.5)], [5]),
    }.items():
        case("optim::" + name, lambda n, f=each: jax.vmap(lambda c: jnp.asarray(f(c), jnp.float32))(n), "steps", diff=False)


def cases(case):
    control_flow(case)
    random(case)
    attention(case)
    optimizers(case)
