# SPDX-License-Identifier: Apache-2.0
"""JAX's side of the comparison: stencil.cc's steps, many in one call. compare.py runs it."""
import argparse
import time

import jax_common


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--form", required=True,
                        choices=["automatic", "shard_map", "interior", "gradient", "descent", "cumsum", "argmax"])
    for name in ("size", "bits", "steps", "windows"):
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    index, count = jax_common.join()

    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec as P

    jax.config.update("jax_enable_x64", True)  # for the sum, and for --bits 64
    mesh = jax.make_mesh((count,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = NamedSharding(mesh, P("rows"))
    size, dtype = options.size, np.float64 if options.bits == 64 else np.float32

    def stepped(u, p):
        return u + 0.1 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4.0 * u)

    def automatic(u):
        return stepped(u, jnp.pad(u, 1))

    def of_device(u):
        above = jax.lax.ppermute(u[-1:], "rows", [(i, i + 1) for i in range(count - 1)])
        below = jax.lax.ppermute(u[:1], "rows", [(i + 1, i) for i in range(count - 1)])
        return stepped(u, jnp.pad(jnp.concatenate([above, u, below]), ((0, 0), (1, 1))))

    def interior(u):
        inner = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1]
        return u.at[1:-1, 1:-1].add(0.1 * inner)

    def energy(u):
        return 0.5 * (jnp.sum(jnp.square(u[1:] - u[:-1])) + jnp.sum(jnp.square(u[:, 1:] - u[:, :-1])))

    def descent(u):
        return u - 0.1 * jax.grad(energy)(u)

    def running(u):
        return jnp.cumsum(u, axis=0) * (1.0 / u.shape[0])

    def largest(u):
        return u.at[:, 0].set(jnp.argmax(u, axis=1).astype(u.dtype) * (1.0 / u.shape[1]))

    def many(step):
        return lambda u: jax.lax.fori_loop(0, options.steps, lambda i, u: step(u), u)

    if options.form == "shard_map":
        function = jax.shard_map(many(of_device), mesh=mesh, in_specs=P("rows"), out_specs=P("rows"))
    elif options.form == "gradient":  # by the cells before all steps
        function = jax.grad(lambda u: 0.5 * jnp.sum(jnp.square(many(automatic)(u))))
    else:
        steps = {"automatic": automatic, "interior": interior, "descent": descent, "cumsum": running, "argmax": largest}
        function = many(steps[options.form])
    run = jax.jit(function, donate_argnums=0, in_shardings=rows, out_shardings=rows)

    def cells(part):
        i = np.arange(size)[part[0]]
        return ((7 * i[:, None] + 13 * np.arange(size)) % 32 / 32).astype(dtype)

    u = jax.make_array_from_callback((size, size), rows, cells)
    seconds = []
    for i in range(options.windows + 1):
        start = time.perf_counter()
        u = run(u)
        u.block_until_ready()
        if i > 0:
            seconds.append((time.perf_counter() - start) / options.steps)
    total = jax.jit(lambda u: jnp.sum(jnp.square(u.astype(jnp.float64))), out_shardings=NamedSharding(mesh, P()))(u)
    if index == 0:
        jax_common.report_times("stencil", seconds, sum=float(total.addressable_data(0)))
    else:
        total.block_until_ready()


main()
