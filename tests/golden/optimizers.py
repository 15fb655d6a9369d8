#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/optimizers.json: what optax and jmp give, for optimizers_test.cc.

Run it with JAX, optax and jmp at the versions below (they are checked):
    python3 -m venv v && v/bin/pip install jax==0.10.2 jaxlib==0.10.2 optax==0.2.8 jmp==0.0.4
    v/bin/python tests/golden/optimizers.py
"""

import jax
import jax.numpy as jnp
import jmp
import numpy as np
import optax

from family import check_versions, numbers, put, write

VERSIONS = {"jax": "0.10.2", "jaxlib": "0.10.2", "optax": "0.2.8", "jmp": "0.0.4"}


# Optimizers and schedules run in float64: what they are to be in every dtype, up to its rounding.
with jax.enable_x64(True):
    PARAMS = {name: numbers(shape, i).astype(np.float64)
              for name, shape, i in [("b", (6,), 1), ("k", (2, 3, 4), 2), ("w", (4, 6), 3)]}


def wide(schedule):
    """optax divides an int32 count by a number in float32, also for float64 parameters."""
    return lambda count: schedule(jnp.asarray(count, jnp.float64))


def gradients(params, i):
    return jax.tree.map(lambda p: p * 0.5 - (i + 1) * 0.125, params)


def steps(name, optimizer):
    """Five steps of gradients that the parameters and the step decide."""
    params, state = PARAMS, optimizer.init(PARAMS)
    for i in range(5):
        updates, state = optimizer.update(gradients(params, i), state, params)
        params = optax.apply_updates(params, updates)
    for leaf, value in params.items():
        put(f"{name}: {leaf}", value)


def optimizers():
    steps("adam", optax.adam(0.125))
    steps("adam(b1=0)", optax.adam(0.125, b1=0.0))
    steps("adamw(schedule)", optax.adamw(wide(optax.exponential_decay(0.3, 3, 0.7)), 0.85, 0.99, weight_decay=0.1))
    steps("sgd(schedule)", optax.sgd(optax.piecewise_constant_schedule(0.3, {1: 0.7, 3: 0.1}), 0.9, nesterov=True))
    steps("rmsprop", optax.rmsprop(0.1))
    steps("adagrad", optax.adagrad(0.1))
    steps("lion", optax.lion(0.1))
    steps("lamb", optax.lamb(0.125))
    steps("lamb(weight_decay)", optax.lamb(optax.linear_schedule(0.5, 0.125, 4), weight_decay=0.25))
    steps("adafactor", optax.adafactor(0.125))
    steps("adafactor(factored)", optax.adafactor(0.125, min_dim_size_to_factor=3))
    steps("adafactor(all options)", optax.adafactor(
        optax.linear_schedule(0.5, 0.125, 4), min_dim_size_to_factor=3, decay_rate=0.7, multiply_by_parameter_scale=False,
        clipping_threshold=0.5, momentum=0.9, weight_decay_rate=0.01, weight_decay_mask={"b": False, "k": True, "w": True}))
    steps("adafactor(no learning rate)", optax.adafactor(clipping_threshold=None))
    steps("chain(ema, scale)", optax.chain(optax.ema(0.75), optax.scale(-0.25)))
    steps("chain(ema(debias=False), scale)", optax.chain(optax.ema(0.75, debias=False), optax.scale(-0.25)))
    steps("chain(scale, apply_every)", optax.chain(optax.scale(-0.25), optax.apply_every(2)))
    steps("chain(adaptive_grad_clip, sgd)", optax.chain(optax.adaptive_grad_clip(0.25), optax.sgd(0.5)))
    steps("chain(clip_by_block_rms, sgd)", optax.chain(optax.clip_by_block_rms(0.25), optax.sgd(0.5)))
    steps("chain(scale_by_param_block_rms, sgd)", optax.chain(optax.scale_by_param_block_rms(), optax.sgd(0.5)))
    steps("inject_hyperparams(adam)", optax.inject_hyperparams(optax.adam)(learning_rate=optax.linear_schedule(0.5, 0.125, 4)))

    changed = optax.inject_hyperparams(optax.sgd)(learning_rate=0.5)
    params, state = PARAMS, changed.init(PARAMS)
    for i in range(4):
        if i == 2:
            state.hyperparams["learning_rate"] = jnp.float64(0.125)
        updates, state = changed.update(gradients(params, i), state, params)
        params = optax.apply_updates(params, updates)
    put("inject_hyperparams(changed): w", params["w"])

    for reset in (False, True):
        name = "lookahead(reset_state)" if reset else "lookahead"
        optimizer = optax.lookahead(optax.adam(0.125), 2, 0.5, reset_state=reset)
        params = optax.LookaheadParams.init_synced(PARAMS)
        state = optimizer.init(params)
        for i in range(5):
            updates, state = optimizer.update(gradients(params.fast, i), state, params)
            params = optax.apply_updates(params, updates)
        put(f"{name}: fast w", params.fast["w"])
        put(f"{name}: slow w", params.slow["w"])

    kernel = numbers((3, 2, 2, 3), 4)  # of a convolution
    updates, _ = optax.adaptive_grad_clip(0.125).update({"k": numbers((3, 2, 2, 3), 5)}, optax.EmptyState(), {"k": kernel})
    put("adaptive_grad_clip(of a convolution)", updates["k"])


def parts_of_trees():
    """Transformations of some of the parameters, and means of weights."""
    steps("masked(adam)", optax.masked(optax.adam(0.125), {"b": False, "k": True, "w": True}))
    steps("multi_transform", optax.multi_transform(
        {"slow": optax.adamw(wide(optax.linear_schedule(0.5, 0.125, 4)), weight_decay=0.1), "fast": optax.sgd(0.25, 0.9),
         "frozen": optax.set_to_zero()}, {"b": "fast", "k": "slow", "w": "frozen"}))
    steps("chain(adam, masked(set_to_zero))", optax.chain(
        optax.adam(0.125), optax.masked(optax.set_to_zero(), {"b": True, "k": False, "w": False})))
    steps("chain(clip, masked(chain))", optax.chain(optax.clip_by_global_norm(0.5), optax.masked(
        optax.chain(optax.trace(0.9), optax.add_decayed_weights(0.1, {"b": True, "k": optax.MaskedNode(), "w": False})), {"b": True, "k": False, "w": True}),
        optax.scale(-0.25)))

    params, mean, kept = PARAMS, PARAMS, PARAMS
    for i in range(5):
        params = jax.tree.map(lambda p: p * 0.75 - 0.125 * i, params)
        mean = optax.incremental_update(params, mean, 0.3)
        kept = optax.periodic_update(params, kept, jnp.int32(i), 3)
    put("incremental_update: w", mean["w"])
    put("periodic_update: w", kept["w"])


def schedules():
    counts = jnp.array([0, 1, 3, 5, 9, 10, 14, 19, 40], jnp.int32)
    for name, schedule in {
        "constant_schedule": lambda _: 0.3,
        "exponential_decay": optax.exponential_decay(0.3, 7, 0.9, 1, end_value=0.2),
        "cosine_decay_schedule": optax.cosine_decay_schedule(0.3, 13, 0.1, 1.5),
        "polynomial_schedule": optax.polynomial_schedule(0.3, 0.1, 1.7, 11, 2),
        "piecewise_constant_schedule": optax.piecewise_constant_schedule(0.3, {3: 0.7, 9: 0.1}),
        "sgdr_schedule": optax.sgdr_schedule([
            dict(init_value=0.0, peak_value=1.0, warmup_steps=2, decay_steps=8, end_value=0.125),
            dict(init_value=0.125, peak_value=0.5, warmup_steps=3, decay_steps=12, end_value=0.0, exponent=2.0)]),
        "warmup_constant_schedule": optax.warmup_constant_schedule(0.125, 1.0, 5),
        "warmup_exponential_decay_schedule": optax.warmup_exponential_decay_schedule(0.125, 1.0, 3, 4, 0.5, 2, staircase=True),
    }.items():
        put(name, np.array([wide(schedule)(c) for c in counts], np.float64))


def loss_scale():
    scale = jmp.DynamicLossScale(jnp.float32(4), period=2, factor=2)
    seen = []
    for finite in [True, True, True, True, False, True, True, False, False, False, False, False]:
        scale = scale.adjust(jnp.array(finite))
        seen += [scale.loss_scale, scale.counter]
    put("DynamicLossScale", np.array(seen, np.float32))


def ctc():
    logits = 2 * numbers((3, 7, 4), 1)
    logit_paddings = jnp.array([[0.0] * 7, [0.0] * 5 + [1.0] * 2, [0.0] * 7])
    labels = jnp.array([[1, 2, 2], [3, 1, 0], [0, 0, 0]])
    label_paddings = jnp.array([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0]])
    loss = lambda x: optax.ctc_loss(x, logit_paddings, labels, label_paddings)
    put("ctc_loss", loss(logits))
    put("ctc_loss: by logits", jax.grad(lambda x: jnp.sum(loss(x) * jnp.array([1.0, -0.5, 2.0])))(logits))
    put("ctc_loss(blank_id=3)", optax.ctc_loss(logits, logit_paddings, jnp.array([[1, 2, 2], [0, 1, 0], [0, 0, 0]]),
                                               label_paddings, blank_id=3))


def main():
    check_versions(VERSIONS)
    with jax.enable_x64(True):
        optimizers()
        parts_of_trees()
        schedules()
    loss_scale()
    ctc()
    write("optimizers.json")


main()
