# SPDX-License-Identifier: Apache-2.0
"""Collectives of all processes, one device in each. --kinds KIND,... --sizes BYTES:CALLS,... with BYTES for each
process."""
import argparse
import time

import jax_common


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", required=True)
    parser.add_argument("--kinds", required=True)
    options = parser.parse_args()
    index, count = jax_common.join()

    import jax
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec as P

    mesh = jax.make_mesh((count,), ("i",))
    ring = [(i, (i + 1) % count) for i in range(count)]
    total = count * (count + 1) / 2
    # The body, how its results are split, and the first element of process 0's result.
    kinds = {
        "all-reduce": (lambda x: jax.lax.psum(x, "i"), P(), total),
        "all-gather": (lambda x: jax.lax.all_gather(x, "i", tiled=True), P("i"), 1),
        "reduce-scatter": (lambda x: jax.lax.psum_scatter(x, "i", tiled=True), P("i"), total),
        "all-to-all": (lambda x: jax.lax.all_to_all(x, "i", 0, 0, tiled=True), P("i"), 1),
        "permute": (lambda x: jax.lax.ppermute(x, "i", ring), P("i"), count),
    }
    for kind in options.kinds.split(","):
        body, out_specs, expected = kinds[kind]
        program = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=out_specs))
        for item in options.sizes.split(","):
            size, calls = map(int, item.split(":"))
            local = np.full(size // 4, index + 1, np.float32)
            x = jax.make_array_from_process_local_data(NamedSharding(mesh, P("i")), local)
            for _ in range(calls // 10 + 2):
                result = program(x).block_until_ready()
            assert index != 0 or float(result.addressable_data(0)[0]) == expected
            seconds = []
            for _ in range(calls):
                start = time.perf_counter()
                program(x).block_until_ready()
                seconds.append(time.perf_counter() - start)
            if index == 0:
                jax_common.report_times("collective", seconds, kind=kind, bytes=size)


main()
