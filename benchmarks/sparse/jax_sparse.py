# SPDX-License-Identifier: Apache-2.0
"""JAX's side of the comparison: sparse.cc's steps with BCSR, of each device's rows under shard_map. compare.py runs it."""
import argparse
import time

import jax_common


def main():
    parser = argparse.ArgumentParser()
    for name in ("size", "steps", "windows"):
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    index, count = jax_common.join()

    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax
    from jax.experimental import sparse
    from jax.sharding import NamedSharding, PartitionSpec as P

    jax.config.update("jax_enable_x64", True)
    mesh = jax.make_mesh((count,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    by_rows = NamedSharding(mesh, P("rows"))
    size = options.size
    total, rows = size * size, size * size // count
    row = np.arange(total)
    i, j = row // size, row % size
    columns = np.stack([np.where(i > 0, row - size, -1), np.where(j > 0, row - 1, -1), row,
                        np.where(j + 1 < size, row + 1, -1), np.where(i + 1 < size, row + size, -1)], 1)
    values = np.tile(np.array([-1, -1, 4, -1, -1.0]), (total, 1))
    parts = []
    for block in range(count):
        part = slice(block * rows, (block + 1) * rows)
        there = columns[part] >= 0
        parts.append((values[part][there], columns[part][there].astype(np.int32),
                      np.concatenate([[0], np.cumsum(there.sum(1))]).astype(np.int32)))
    longest = max(len(data) for data, _, _ in parts)
    padded = lambda x, fill: np.concatenate([x, np.full(longest - len(x), fill, x.dtype)])
    data = np.stack([padded(data, 0) for data, _, _ in parts])
    indices = np.stack([padded(column, total) for _, column, _ in parts])
    pointers = np.stack([pointer for _, _, pointer in parts])
    put = lambda x: jax.make_array_from_callback(x.shape, by_rows, lambda part: x[part])

    def solve(data, indices, pointers, b):
        matrix = sparse.BCSR((data[0], indices[0], pointers[0]), shape=(rows, total))
        dot = lambda x, y: lax.psum(jnp.sum(x * y), "rows")

        def step(_, at):
            x, residual, direction, square = at
            product = matrix @ lax.all_gather(direction, "rows", tiled=True)
            along = square / dot(direction, product)
            residual = residual - along * product
            after = dot(residual, residual)
            return x + along * direction, residual, residual + after / square * direction, after

        return lax.fori_loop(0, options.steps, step, (jnp.zeros_like(b), b, b, dot(b, b)))[0]

    run = jax.jit(jax.shard_map(solve, mesh=mesh, in_specs=P("rows"), out_specs=P("rows"), check_vma=False))
    arguments = put(data), put(indices), put(pointers), put((7 * i + 13 * j) % 32 / 32)
    seconds = []
    for window in range(options.windows + 1):
        start = time.perf_counter()
        x = run(*arguments)
        x.block_until_ready()
        if window > 0:
            seconds.append((time.perf_counter() - start) / options.steps)
    whole = jax.jit(jnp.sum, out_shardings=NamedSharding(mesh, P()))(x)
    if index == 0:
        jax_common.report_times("sparse", seconds, sum=float(whole.addressable_data(0)))
    else:
        whole.block_until_ready()


main()
