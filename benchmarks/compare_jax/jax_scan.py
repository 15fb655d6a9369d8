# SPDX-License-Identifier: Apache-2.0
"""A jitted scan of many steps of a small recurrent cell, and its gradient."""
import time

import jax_common

STATE = 32


def main():
    options = jax_common.parse_options("windows", "window", "steps")
    jax_common.join()

    import jax
    import jax.numpy as jnp

    def loss(w, xs):
        def step(h, x):
            h = jnp.tanh(w @ h + x)
            return h, h
        return jnp.mean(jnp.square(jax.lax.scan(step, jnp.zeros(STATE), xs)[1]))

    w = (jnp.sin(jnp.arange(STATE * STATE, dtype=jnp.float32)) * jnp.float32(0.1)).reshape(STATE, STATE)
    xs = jnp.cos(jnp.arange(options.steps * STATE, dtype=jnp.float32)).reshape(options.steps, STATE)
    for name, function in (("forward", jax.jit(loss)), ("gradient", jax.jit(jax.grad(loss)))):
        seconds = []
        for window in range(options.windows + 1):
            start = time.perf_counter()
            for _ in range(options.window):
                result = function(w, xs).block_until_ready()
            if window > 0:
                seconds.append((time.perf_counter() - start) / options.window)
        jax_common.report_times("scan", seconds, direction=name, sum=float(jnp.sum(jnp.abs(result))))


main()
