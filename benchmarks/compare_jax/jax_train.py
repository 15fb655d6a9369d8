# SPDX-License-Identifier: Apache-2.0
"""Training steps of an MLP 784-512-512-10 with adam, a global batch of 512 split over the processes.

Steps are timed in windows that end by waiting for the loss, so that dispatch overlaps computation as in a real loop.
"""
import time

import jax_common

LAYERS = (784, 512, 512, 10)
BATCH = 512


def main():
    options = jax_common.parse_options("windows", "window", "split-state")
    index, count = jax_common.join()

    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec as P

    mesh = jax.make_mesh((count,), ("data",))
    rows, replicated = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())

    def loss_of(params, x, y):
        for w, b in params[:-1]:
            x = jax.nn.relu(x @ w + b)
        w, b = params[-1]
        logits = jax.nn.log_softmax(x @ w + b)
        return -jnp.mean(jnp.sum(logits * jax.nn.one_hot(y, LAYERS[-1], dtype=x.dtype), axis=-1))

    def step(params, state, x, y):
        loss, grads = jax.value_and_grad(loss_of)(params, x, y)
        t, m, v = state
        t = t + 1
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, grads)
        rate = 1e-3 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        params = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), params, m, v)
        return params, (t, m, v), loss

    rng = np.random.default_rng(0)
    params = [(rng.normal(0, (2 / n) ** 0.5, (n, m)).astype(np.float32), np.zeros(m, np.float32))
              for n, m in zip(LAYERS[:-1], LAYERS[1:])]
    zeros = jax.tree.map(np.zeros_like, params)
    moments = jax.tree.map(
        lambda z: rows if options.split_state and z.shape[0] % count == 0 else replicated, zeros)
    params, t, m, v = (jax.device_put(tree, sharding) for tree, sharding in
                       ((params, replicated), (np.float32(0), replicated), (zeros, moments), (zeros, moments)))
    state = (t, m, v)
    of_state = (replicated, moments, moments)
    step = jax.jit(step, donate_argnums=(0, 1), in_shardings=(replicated, of_state, rows, rows),
                   out_shardings=(replicated, of_state, replicated))

    rng = np.random.default_rng(index + 1)
    local = BATCH // count
    x = jax.make_array_from_process_local_data(rows, rng.normal(size=(local, LAYERS[0])).astype(np.float32))
    y = jax.make_array_from_process_local_data(rows, rng.integers(0, LAYERS[-1], local).astype(np.int32))

    params, state, loss = step(params, state, x, y)
    loss.block_until_ready()
    jax_common.report_first_step(index)

    for _ in range(options.window):
        params, state, loss = step(params, state, x, y)
    loss.block_until_ready()
    seconds = []
    for _ in range(options.windows):
        start = time.perf_counter()
        for _ in range(options.window):
            params, state, loss = step(params, state, x, y)
        loss.block_until_ready()
        seconds.append((time.perf_counter() - start) / options.window)
    assert np.isfinite(float(loss.addressable_data(0)))
    if index == 0:
        jax_common.report_times("train", seconds, loss=float(loss.addressable_data(0)))
    jax_common.report_memory(index)


main()
