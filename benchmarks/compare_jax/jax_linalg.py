# SPDX-License-Identifier: Apache-2.0
"""Jitted decompositions of one matrix and of many small ones."""
import time

import jax_common


def main():
    options = jax_common.parse_options("windows", "size")
    jax_common.join()

    import jax
    import jax.numpy as jnp
    import jax.scipy.linalg as jsl

    def matrices(count, n):
        number = jnp.arange(count * n * n, dtype=jnp.float32)
        return jnp.sin(number * number % 1009).reshape(count, n, n)

    def definite(x):
        return x @ jnp.swapaxes(x, -1, -2) + x.shape[-1] * jnp.eye(x.shape[-1])

    inputs = {"one": matrices(1, options.size), "many": matrices(256, 16)}
    functions = {
        "cholesky": lambda x: jnp.linalg.cholesky(definite(x)),
        "lu_factor": lambda x: jsl.lu_factor(x)[0],
        "solve": lambda x: jnp.linalg.solve(x, x + 1),
        "qr": lambda x: sum(jnp.linalg.qr(x)),
        "r of qr": lambda x: jnp.linalg.qr(x)[1],
        "eigh": lambda x: jnp.linalg.eigh(definite(x))[0],
        "svd": lambda x: jnp.linalg.svd(x, full_matrices=False)[1],
        "eigvals": lambda x: jnp.abs(jnp.linalg.eigvals(x)),
        "expm": lambda x: jsl.expm(x * 0.01),
        "gradient of solve": jax.grad(lambda x: jnp.sum(jnp.linalg.solve(x, x + 1))),
    }
    for name, function in functions.items():
        jitted = jax.jit(function)
        for of, x in inputs.items():
            seconds = []
            for window in range(options.windows + 1):
                start = time.perf_counter()
                result = jitted(x).block_until_ready()
                if window > 0:
                    seconds.append(time.perf_counter() - start)
            jax_common.report_times("linalg", seconds, operation=name, of=of, sum=float(jnp.sum(jnp.abs(result))))


main()
