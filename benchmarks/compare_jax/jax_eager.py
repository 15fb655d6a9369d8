# SPDX-License-Identifier: Apache-2.0
"""Small operations outside of any traced function, each called many times."""
import time

import jax_common


def main():
    options = jax_common.parse_options("windows", "window")
    jax_common.join()

    import jax.numpy as jnp

    x, y, m = jnp.arange(8, dtype=jnp.float32), jnp.ones(8, jnp.float32), jnp.ones((8, 8), jnp.float32)
    operations = {
        "x + y": lambda: x + y,
        "x + 1": lambda: x + 1,
        "matmul 8x8": lambda: jnp.matmul(m, m),
        "sum": lambda: jnp.sum(x),
        "reshape": lambda: jnp.reshape(x, (2, 4)),
        "x[3]": lambda: x[3],
    }
    for name, call in operations.items():
        seconds = []
        for window in range(options.windows + 1):
            start = time.perf_counter()
            for _ in range(options.window):
                result = call()
            result.block_until_ready()
            if window > 0:
                seconds.append((time.perf_counter() - start) / options.window)
        jax_common.report_times("eager", seconds, operation=name)


main()
