# SPDX-License-Identifier: Apache-2.0
"""Training steps of the transformer of tests/models/transformer.py, a batch of 16 rows split over the processes.

First the step is traced, lowered and compiled, then traced and lowered once more. Steps are timed in windows that end
by waiting for the loss.
"""
import pathlib
import statistics
import sys
import time

import jax_common

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "models"))

BATCH = 16


def main():
    options = jax_common.parse_options("windows", "window")
    index, count = jax_common.join()

    import jax
    import numpy as np
    import transformer
    from jax.sharding import NamedSharding, PartitionSpec as P

    mesh = jax.make_mesh((count,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    rows, replicated = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
    config = transformer.Config()
    optimizer = transformer.optimizer(2e-3, 50, 500)

    def make_step():
        def step(model, state, tokens):
            return transformer.step(optimizer, transformer.loss, model, state, tokens)

        return jax.jit(step, donate_argnums=(0, 1), in_shardings=(replicated, replicated, rows),
                       out_shardings=(replicated, replicated, replicated))

    model = transformer.init(config, jax.random.key(0))
    state = optimizer.init(model)
    model, state = (jax.tree.map(lambda x: jax.device_put(np.asarray(x), replicated), tree) for tree in (model, state))
    tokens = np.random.default_rng(index).integers(0, config.vocabulary, (BATCH // count, config.context + 1))
    tokens = jax.make_array_from_process_local_data(rows, tokens.astype(np.int32))

    start = time.perf_counter()
    step = make_step().lower(model, state, tokens).compile()
    prepared = time.perf_counter() - start
    traced = []
    for _ in range(3):
        start = time.perf_counter()
        make_step().lower(model, state, tokens)
        traced.append(time.perf_counter() - start)

    def window():
        nonlocal model, state
        start = time.perf_counter()
        for _ in range(options.window):
            model, state, loss = step(model, state, tokens)
        loss.block_until_ready()
        return (time.perf_counter() - start) / options.window, float(loss.addressable_data(0))

    first = window()[1]
    seconds = []
    for _ in range(options.windows):
        took, loss = window()
        seconds.append(took)
    assert loss < first
    if index == 0:
        jax_common.report("prepare", prepare_us=prepared * 1e6, trace_us=statistics.median(traced) * 1e6)
        jax_common.report_times("train", seconds, loss=loss)
    jax_common.report_memory(index)


main()
