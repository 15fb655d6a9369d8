# SPDX-License-Identifier: Apache-2.0
"""Products as they stand in the gradients of linear layers' weights, x^T y, in a scan over four layers."""
import time

import jax_common

# n, m, k of x[n, m] and y[n, k].
SIZES = ((1024, 4096, 256), (512, 1024, 1024), (512, 512, 512), (1024, 1024, 64), (256, 768, 4096), (128, 784, 64))


def main():
    options = jax_common.parse_options("windows")
    jax_common.join()

    import jax
    import jax.numpy as jnp
    jax.config.update("jax_enable_x64", True)

    for dtype in ("f32", "f64"):
        for n, m, k in SIZES:
            def numbers(columns):
                number = jnp.arange(4 * n * columns, dtype=jnp.float64)
                return jnp.sin(number).reshape(4, n, columns).astype({"f32": jnp.float32, "f64": jnp.float64}[dtype])

            x, y = numbers(m), numbers(k)
            product = jax.jit(lambda x, y: jax.lax.map(lambda xy: xy[0].T @ xy[1], (x, y)))
            seconds = []
            for window in range(options.windows + 1):
                start = time.perf_counter()
                result = product(x, y).block_until_ready()
                if window > 0:
                    seconds.append(time.perf_counter() - start)
            jax_common.report_times("products", seconds, dtype=dtype, sizes=f"{n},{m},{k}",
                                    sum=float(jnp.sum(jnp.abs(result.astype(jnp.float64)))))


main()
