"""psum over all processes, one device in each. --sizes BYTES:CALLS,... with BYTES for each process."""
import argparse
import time

import jax_common


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", required=True)
    options = parser.parse_args()
    index, count = jax_common.join()

    import jax
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec as P

    mesh = jax.make_mesh((count,), ("i",))
    psum = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P()))
    for item in options.sizes.split(","):
        size, calls = map(int, item.split(":"))
        local = np.full(size // 4, index + 1, np.float32)
        x = jax.make_array_from_process_local_data(NamedSharding(mesh, P("i")), local)
        for _ in range(calls // 10 + 2):
            result = psum(x).block_until_ready()
        assert float(result.addressable_data(0)[0]) == count * (count + 1) / 2
        seconds = []
        for _ in range(calls):
            start = time.perf_counter()
            psum(x).block_until_ready()
            seconds.append(time.perf_counter() - start)
        if index == 0:
            jax_common.report_times("psum", seconds, bytes=size)


main()
