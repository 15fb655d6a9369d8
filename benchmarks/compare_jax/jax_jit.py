# SPDX-License-Identifier: Apache-2.0
"""A cached call of a jitted function that adds 1 to f32[8], in one process."""
import time

import jax_common


def main():
    options = jax_common.parse_options("windows", "window")
    jax_common.join()

    import jax
    import jax.numpy as jnp

    add_one = jax.jit(lambda x: x + 1)
    x = jnp.zeros(8, jnp.float32)
    seconds = []
    for window in range(options.windows + 1):
        start = time.perf_counter()
        for _ in range(options.window):
            y = add_one(x)
        y.block_until_ready()
        if window > 0:
            seconds.append((time.perf_counter() - start) / options.window)
    assert float(y[0]) == 1
    jax_common.report_times("jit", seconds)


main()
