# SPDX-License-Identifier: Apache-2.0
"""What one device does: products, a pass over memory, calls, copies, attention, and the training step of a transformer
in bf16. Attention is cuDNN's on GPUs."""
import argparse
import pathlib
import sys
import time

import jax_common

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "tests" / "models")]


def main():
    parser = argparse.ArgumentParser()
    for name in ("windows", "matrix", "mib", "layers", "width", "context", "batch"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--contexts", required=True)
    options = parser.parse_args()

    import jax
    import jax.numpy as jnp
    import numpy as np

    implementation = "cudnn" if jax.devices()[0].platform == "gpu" else None

    def measure(operation, window, run):
        run(window)
        seconds = []
        for _ in range(options.windows):
            start = time.perf_counter()
            run(window)
            seconds.append((time.perf_counter() - start) / window)
        jax_common.report_times("gpu", seconds, operation=operation)

    def repeated(function, *arguments):
        def run(window):
            for _ in range(window):
                result = function(*arguments)
            jax.block_until_ready(result)

        return run

    def normal(shape, dtype, seed):
        return jax.jit(lambda key: jax.random.normal(key, shape).astype(dtype))(jax.random.key(seed))

    for name, dtype in (("bf16", jnp.bfloat16), ("f32", jnp.float32)):
        a, b = (normal((options.matrix, options.matrix), dtype, seed) for seed in (1, 2))
        measure(f"product {name}", 10, repeated(jax.jit(jnp.matmul), a, b))

    large, small = jnp.ones(options.mib << 18), jnp.zeros(8)
    measure("x * 2 + 1", 10, repeated(jax.jit(lambda x: x * 2. + 1.), large))
    following = jax.jit(lambda x: x + 1)
    measure("cached jit call", 1000, repeated(following, small))

    def one_by_one(window):
        for _ in range(window):
            following(small).block_until_ready()

    measure("call and wait", 200, one_by_one)
    measure("eager x + x", 200, repeated(lambda x: x + x, small))

    host = np.ones(options.mib << 18, np.float32)
    measure("host to device", 1, lambda _: jax.device_put(host).block_until_ready())
    x, seconds = jax.device_put(host), []
    for i in range(options.windows + 1):
        y = following(x).block_until_ready()
        start = time.perf_counter()
        back = np.asarray(y)
        if i > 0:
            seconds.append(time.perf_counter() - start)
        assert back[-1] == 2
    jax_common.report_times("gpu", seconds, operation="device to host")

    def attended(q, k, v):
        return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation=implementation)

    def loss_of_attention(q, k, v):
        return attended(q, k, v).astype(jnp.float32).sum()

    for text in options.contexts.split(","):
        context, tokens = map(int, text.split(":"))
        operands = [normal((max(tokens // context, 1), context, 16, 64), jnp.bfloat16, seed) for seed in (1, 2, 3)]
        measure(f"attention {context}", 10, repeated(jax.jit(attended), *operands))
        measure(f"gradient of attention {context}", 10,
                repeated(jax.jit(jax.grad(loss_of_attention, (0, 1, 2))), *operands))

    if options.layers == 0:
        return
    import optax
    import transformer

    config = transformer.Config(32768, options.context, options.width, options.width // 64, options.layers)
    optimizer = transformer.optimizer(2e-3, 50, 500)

    def make():
        model = transformer.init(config, jax.random.key(0))
        return model, optimizer.init(model)

    def loss_of(model, tokens):
        half = jax.tree.map(lambda x: x.astype(jnp.bfloat16), model)
        logits = transformer.logits(half, tokens[:, :-1]).astype(jnp.float32)
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]))

    model, state = jax.jit(make)()
    tokens = np.random.default_rng(1).integers(0, config.vocabulary, (options.batch, config.context + 1))
    tokens = jnp.asarray(tokens.astype(np.int32))
    step = jax.jit(lambda model, state, tokens: transformer.step(optimizer, loss_of, model, state, tokens),
                   donate_argnums=(0, 1))
    start = time.perf_counter()
    step.lower(model, state, tokens).compile()
    jax_common.report_times("gpu", [time.perf_counter() - start], operation="compile of the step")

    def steps(window):
        nonlocal model, state
        for _ in range(window):
            model, state, loss = step(model, state, tokens)
        loss.block_until_ready()

    measure("step of a transformer, bf16", 5, steps)


main()
