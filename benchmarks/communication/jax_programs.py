# SPDX-License-Identifier: Apache-2.0
"""JAX's side of compare.py: each program is compiled for 8 CPU devices, and the collectives are read from its HLO.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 python jax_programs.py [--only NAME ...] [--hlo] [--check]

Prints a line of JSON for each program (README.md). The programs are those of lockstep_programs.cc, by the same names.
"""
import argparse
import json
import pathlib
import sys
import time

import jax
import jax.numpy as jnp
import optax
from jax.sharding import PartitionSpec as P

import hlo
import jax_fsdp  # noqa: F401: its programs are in the list
from jax_common import F32, I32, PROGRAMS, Placed, descend, digest, program, wave

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "models"))
import transformer  # noqa: E402

# Perceptrons.


def mlp_loss(w1, w2, x, y):
    return jnp.mean(jnp.square(jnp.tanh(x @ w1) @ w2 - y))


def mlp_step(w1, w2, x, y):
    loss, grads = jax.value_and_grad(mlp_loss, argnums=(0, 1))(w1, w2, x, y)
    w1, w2 = descend((w1, w2), grads)
    return w1, w2, loss


@program("mlp, data")
def mlp_data():
    at = Placed(data=8)
    arguments = (at((512, 2048)), at((2048, 512)), at((1024, 512), P("data")), at((1024, 512), P("data")))
    return mlp_step, arguments, at.on(P(), P(), P())


@program("mlp, fsdp")
def mlp_fsdp():
    at = Placed(fsdp=8)
    rows = P("fsdp")
    arguments = (at((512, 2048), rows), at((2048, 512), rows), at((1024, 512), rows), at((1024, 512), rows))
    return mlp_step, arguments, at.on(rows, rows, P())


@program("12 layers, fsdp")
@program("12 layers, fsdp, of which 8 MiB are kept")
def fsdp_layers():
    at = Placed(fsdp=8)
    rows = P("fsdp")

    def loss(weights, x):
        for w in weights:
            x = x + 0.1 * jnp.tanh(x @ w)
        return jnp.mean(jnp.square(x))

    def step(weights, x):
        value, grads = jax.value_and_grad(loss)(weights, x)
        return descend(weights, grads), value

    return step, ([at((1024, 1024), rows)] * 12, at((4096, 1024), rows)), at.on(rows, P())


@program("mlp, tensor")
def mlp_tensor():
    at = Placed(data=2, tensor=4)
    columns, rows, batch = P(None, "tensor"), P("tensor"), P("data")

    def step(w1, w2, x, y):
        loss, (g1, g2, gx) = jax.value_and_grad(mlp_loss, argnums=(0, 1, 2))(w1, w2, x, y)
        w1, w2 = descend((w1, w2), (g1, g2))
        return w1, w2, gx, loss

    arguments = (at((512, 2048), columns), at((2048, 512), rows), at((1024, 512), batch), at((1024, 512), batch))
    return step, arguments, at.on(columns, rows, batch, P())


@program("layers, fsdp x tensor, scan and remat")
def scanned_layers():
    at = Placed(fsdp=4, tensor=2)
    up, down, batch = P(None, "fsdp", "tensor"), P(None, "tensor", "fsdp"), P("fsdp")

    def loss(w1, w2, x):
        def layer(h, weights):
            w1, w2 = weights
            return at.constrain(h + jax.nn.gelu(h @ w1) @ w2, "fsdp"), None

        h, _ = jax.lax.scan(jax.checkpoint(layer), x, (w1, w2))
        return jnp.mean(jnp.square(h))

    def step(w1, w2, x):
        value, grads = jax.value_and_grad(loss, argnums=(0, 1))(w1, w2, x)
        w1, w2 = descend((w1, w2), grads)
        return w1, w2, value

    arguments = (at((8, 512, 2048), up), at((8, 2048, 512), down), at((1024, 512), batch))
    return step, arguments, at.on(up, down, P())


def sequence_layer(at):
    def layer(scale, bias, w1, w2, x):
        y = jax.nn.standardize(x, axis=-1, epsilon=1e-5) * scale + bias
        return at.constrain(x + jax.nn.gelu(y @ w1) @ w2, None, "tensor")
    return layer


def sequence_arguments(at):
    return (at((512,)), at((512,)), at((512, 2048), P(None, "tensor")), at((2048, 512), P("tensor")),
            at((4, 256, 512), P(None, "tensor")))


@program("sequence-parallel norm")
def sequence_norm():
    at = Placed(tensor=8)
    return sequence_layer(at), sequence_arguments(at), at.on(P(None, "tensor"))[0]


@program("sequence-parallel norm, gradient")
def sequence_norm_gradient():
    at = Placed(tensor=8)
    layer = sequence_layer(at)
    gradient = jax.grad(lambda *a: jnp.mean(jnp.square(layer(*a))), argnums=(0, 1, 2, 3, 4))
    return gradient, sequence_arguments(at), at.on(P(), P(), P(None, "tensor"), P("tensor"), P(None, "tensor"))


# Vocabularies.


@program("split vocabulary, gradient")
def vocabulary():
    at = Placed(data=2, tensor=4)

    def loss(table, w, tokens, targets):
        hidden = jnp.tanh(jnp.take(table, tokens, axis=0) @ w)
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(hidden @ table.T, targets))

    def step(table, w, tokens, targets):
        return jax.value_and_grad(loss, argnums=(0, 1))(table, w, tokens, targets)

    tokens = at((16, 128), P("data"), I32)
    return (lambda *a: (lambda v, g: (*g, v))(*step(*a)), (at((8192, 256), P("tensor")), at((256, 256)), tokens, tokens),
            at.on(P("tensor"), P(), P()))


@program("embedding, data, gradient")
def embedding():
    at = Placed(data=8)

    def loss(table, w, tokens):
        return jnp.mean(jnp.square(jnp.take(table, tokens, axis=0) @ w))

    return (jax.grad(loss, argnums=(0, 1)), (at((8192, 256)), at((256, 256)), at((64, 128), P("data"), I32)),
            at.on(P(), P()))


# Training.


@program("8 microbatches, data")
def microbatches():
    at = Placed(data=8)

    def step(w1, w2, x, y):
        def add(sums, batch):
            grads = jax.grad(mlp_loss, argnums=(0, 1))(w1, w2, *batch)
            return jax.tree.map(jnp.add, sums, grads), None

        grads, _ = jax.lax.scan(add, (jnp.zeros((512, 2048)), jnp.zeros((2048, 512))), (x, y))
        return descend((w1, w2), jax.tree.map(lambda g: g / 8, grads))

    batches = at((8, 256, 512), P(None, "data"))
    return step, (at((512, 2048)), at((2048, 512)), batches, batches), at.on(P(), P())


@program("transformer step, data x fsdp x tensor")
def transformer_step():
    at = Placed(data=2, fsdp=2, tensor=2)
    config = transformer.Config(vocabulary=4096, context=256, width=256, heads=8, layers=2)
    optimizer = transformer.optimizer(2e-3, 50, 500)
    batch = P(("data", "fsdp"))
    specs = {"query": P("fsdp", "tensor"), "key": P("fsdp", "tensor"), "value": P("fsdp", "tensor"),
             "out": P("tensor", None, "fsdp"), "up": P("fsdp", "tensor"), "up_bias": P("tensor"),
             "down": P("tensor", "fsdp"), "embedding": P("tensor", "fsdp"), "position": P(None, "fsdp")}

    def spec(path):
        return specs.get(path[-1].key, P()) if isinstance(path[-1], jax.tree_util.DictKey) else P()

    def loss(model, tokens):
        def lay(x):
            return at.constrain(x, ("data", "fsdp"))
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        x = lay(jnp.take(model["embedding"], inputs, axis=0) + model["position"][: inputs.shape[1]])
        for layer in model["layers"]:
            x = lay(transformer.apply(layer, x))
        logits = transformer.normalize(model["norm"], x) @ model["embedding"].T
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, targets))

    def step(model, state, tokens):
        return transformer.step(optimizer, loss, model, state, tokens)

    model = jax.eval_shape(lambda: transformer.init(config, jax.random.key(0)))
    state = jax.eval_shape(optimizer.init, model)
    model, state = (jax.tree_util.tree_map_with_path(lambda path, x: at(x.shape, spec(path), x.dtype), tree)
                    for tree in (model, state))
    shardings = jax.tree.map(lambda x: x.sharding, (model, state))
    tokens = at((16, 257), batch, I32)

    def values():
        model = transformer.init(config, jax.random.key(0))
        return jax.device_put((model, optimizer.init(model)), shardings) + (wave(tokens),)
    return step, (model, state, tokens), (*shardings, *at.on(P())), values


# Mixtures of experts: 8 experts, a token goes to the best one.


def one_hot_experts(at, capacity):
    """GShard's: groups of tokens, and products with one-hot tensors that tell a token's expert and place."""
    def layer(gate, w1, w2, x):  # x is [groups, tokens, features]
        probabilities = jax.nn.softmax(jnp.einsum("gsm,me->gse", x, gate))
        chosen = jax.nn.one_hot(jnp.argmax(probabilities, -1), 8)
        place = (jnp.cumsum(chosen, 1) - 1) * chosen
        kept = chosen * (place < capacity)
        dispatch = kept[..., None] * jax.nn.one_hot(jnp.sum(place, -1).astype(I32), capacity)[:, :, None, :]
        combine = dispatch * jnp.max(probabilities, -1)[:, :, None, None]
        given = at.constrain(jnp.einsum("gsec,gsm->egcm", dispatch, x), "expert")
        hidden = jax.nn.relu(jnp.einsum("egcm,emh->egch", given, w1))
        got = at.constrain(jnp.einsum("egch,ehm->egcm", hidden, w2), "expert")
        return at.constrain(jnp.einsum("gsec,egcm->gsm", combine, got), "expert")
    return layer


def sorted_experts(at, capacity):
    """Tokens are sorted by their expert, and the first of each expert put into its rows of a buffer."""
    def layer(gate, w1, w2, x):  # x is [tokens, features]
        probabilities = jax.nn.softmax(x @ gate)
        expert = jnp.argmax(probabilities, -1)
        order = jnp.argsort(expert)
        by_expert = expert[order]
        place = jnp.arange(len(order)) - jnp.searchsorted(by_expert, jnp.arange(8))[by_expert]
        given = jnp.zeros((8, capacity, x.shape[1])).at[by_expert, place].set(x[order], mode="drop")
        given = at.constrain(given, "expert")
        hidden = jax.nn.relu(jnp.einsum("ecm,emh->ech", given, w1))
        got = at.constrain(jnp.einsum("ech,ehm->ecm", hidden, w2), "expert")
        rows = got.at[by_expert, place].get(mode="fill", fill_value=0)
        result = jnp.zeros_like(x).at[order].set(rows) * jnp.max(probabilities, -1)[:, None]
        return at.constrain(result, "expert")
    return layer


def experts_arguments(at, tokens):
    return (at((512, 8)), at((8, 512, 1024), P("expert")), at((8, 1024, 512), P("expert")), at(tokens, P("expert")))


def experts(layer_of, capacity, tokens, gradient):
    at = Placed(expert=8)
    layer, rows = layer_of(at, capacity), P("expert")
    if not gradient:
        return layer, experts_arguments(at, tokens), at.on(rows)[0]
    return (jax.grad(lambda *a: jnp.mean(jnp.square(layer(*a))), argnums=(0, 1, 2)), experts_arguments(at, tokens),
            at.on(P(), rows, rows))


@program("experts by one-hot")
def experts_one_hot():
    return experts(one_hot_experts, 64, (8, 256, 512), gradient=False)


@program("experts by one-hot, gradient")
def experts_one_hot_gradient():
    return experts(one_hot_experts, 64, (8, 256, 512), gradient=True)


@program("experts by sort")
def experts_sort():
    return experts(sorted_experts, 512, (2048, 512), gradient=False)


@program("experts by sort, gradient")
def experts_sort_gradient():
    return experts(sorted_experts, 512, (2048, 512), gradient=True)


# Neighbours.


def conv_net(k1, k2, k3, x):
    def conv(x, kernel, stride=1):
        return jax.lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    x = jax.nn.relu(conv(x, k1))
    x = jax.nn.relu(conv(x, k2, 2))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return conv(x, k3)


def conv_arguments(at):
    return at((3, 3, 16, 32)), at((3, 3, 32, 32)), at((3, 3, 32, 32)), at((16, 128, 128, 16), P(None, "rows"))


@program("conv net by image rows")
def conv():
    at = Placed(rows=8)
    return conv_net, conv_arguments(at), at.on(P(None, "rows"))[0]


@program("conv net by image rows, gradient")
def conv_gradient():
    at = Placed(rows=8)
    return (jax.grad(lambda *a: jnp.mean(jnp.square(conv_net(*a))), argnums=(0, 1, 2)), conv_arguments(at),
            at.on(P(), P(), P()))


@program("token shift")
def token_shift():
    at = Placed(sequence=8)

    def shift(mix, x):
        before = jnp.pad(x, ((0, 0), (1, 0), (0, 0)))[:, :-1]
        return x * mix + before * (1 - mix)

    split = P(None, "sequence")
    return shift, (at((512,)), at((8, 1024, 512), split)), at.on(split)[0]


@program("decoding, cache by sequence")
def decoding():
    at = Placed(sequence=8)
    split = P(None, "sequence")

    def decode(wq, wk, wv, keys, values, x, place):
        query, key, value = (jnp.einsum("bm,mhf->bhf", x, w) for w in (wq, wk, wv))
        keys = jax.lax.dynamic_update_slice(keys, key[:, None], (0, place, 0, 0))
        values = jax.lax.dynamic_update_slice(values, value[:, None], (0, place, 0, 0))
        scores = jnp.einsum("bhf,bshf->bhs", query, keys) / 8
        scores = jnp.where(jnp.arange(4096) <= place, scores, -1e30)
        return jnp.einsum("bhs,bshf->bhf", jax.nn.softmax(scores), values), keys, values

    weights, cache = at((512, 8, 64)), at((8, 4096, 8, 64), split)
    return (decode, (weights, weights, weights, cache, cache, at((8, 512)), at((), P(), I32)),
            at.on(P(), split, split))


# Small questions of large values.


@program("all(isfinite)")
def all_finite():
    at = Placed(fsdp=8)
    return (lambda x, y: jnp.all(jnp.isfinite(x)) & jnp.all(jnp.isfinite(y)),
            (at((512, 2048), P("fsdp")), at((2048, 512), P(None, "fsdp"))), at.on(P())[0])


@program("argmax of split logits")
def argmax():
    at = Placed(tensor=8)
    return lambda x: jnp.argmax(x, -1), (at((256, 32768), P(None, "tensor")),), at.on(P())[0]


@program("top-k of split logits")
def top_k():
    at = Placed(tensor=8)
    return lambda x: jax.lax.top_k(x, 40), (at((256, 32768), P(None, "tensor")),), at.on(P())[0]


# Resharding. What is added keeps it from being the argument itself.


def reshard(before, after, **axes):
    at = Placed(**axes)
    return lambda x: x + 1, (at((1024, 1024), before),), at.on(after)[0]


@program("P('x') to P(None, 'x')")
def reshard_dimension():
    return reshard(P("x"), P(None, "x"), x=8)


@program("P('x', 'y') to P('y', 'x')")
def reshard_swap():
    return reshard(P("x", "y"), P("y", "x"), x=4, y=2)


@program("P(('x', 'y')) to P(('y', 'x'))")
def reshard_order():
    return reshard(P(("x", "y")), P(("y", "x")), x=4, y=2)


# Single operations along a split dimension.


def single(function, shape, after, *more, dtype=F32):
    at = Placed(x=8)
    return function, (at(shape, P("x"), dtype), *(at(*m) for m in more)), at.on(after)[0]


@program("x[37]")
def one_row():
    return single(lambda x: x[37], (1024, 1024), P())


@program("roll by 1")
def roll():
    return single(lambda x: jnp.roll(x, 1, 0), (1024, 1024), P("x"))


@program("roll by 200")
def roll_far():
    return single(lambda x: jnp.roll(x, 200, 0), (1024, 1024), P("x"))


@program("halves concatenated")
def halves():
    return single(lambda x: jnp.concatenate([x[512:], x[:512]]), (1024, 1024), P("x"))


@program("flip")
def flip():
    return single(lambda x: jnp.flip(x, 0), (1024, 1024), P("x"))


@program("cumsum")
def cumsum():
    return single(lambda x: jnp.cumsum(x, 0), (1024, 1024), P("x"))


@program("sort")
def sort():
    return single(lambda x: jnp.sort(x, 0), (1024, 256), P("x"))


@program("sort of one dimension")
def sort_of_one_dimension():
    return single(lambda x: jnp.sort(x, 0), (1 << 18,), P("x"))


@program("spectral derivative")
def spectral_derivative():
    waves = jnp.fft.fftfreq(128).reshape(128, 1, 1)
    return single(lambda x: jnp.real(jnp.fft.ifftn(jnp.fft.fftn(x) * waves)), (128, 128, 128), P("x"))


@program("real spectral derivative")
def real_spectral_derivative():
    waves = jnp.fft.fftfreq(128).reshape(128, 1, 1)
    return single(lambda x: jnp.fft.irfftn(jnp.fft.rfftn(x) * waves), (128, 128, 128), P("x"))


@program("fft of one dimension")
def fft_of_one_dimension():
    return single(lambda x: jnp.real(jnp.fft.fft(x)), (1 << 18,), P("x"))


@program("histogram")
def histogram():
    return single(lambda x: jnp.bincount(x, length=1024), (1 << 18,), P(), dtype=I32)


@program("segment_sum")
def segment_sum():
    return single(lambda x, ids: jax.ops.segment_sum(x, ids, num_segments=256), (65536, 64), P(),
                  ((65536,), P("x"), I32))


@program("matmul of whole operands to P('y')")
def matmul():
    at = Placed(x=4, y=2)
    return jnp.matmul, (at((1024, 512)), at((512, 1024))), at.on(P("y"))[0]


def measure(name, keep_hlo, check):
    function, arguments, out_shardings, *values = PROGRAMS[name]()
    start = time.perf_counter()
    compiled = jax.jit(function, out_shardings=out_shardings).lower(*arguments).compile()
    seconds = time.perf_counter() - start
    text, memory = compiled.as_text(), compiled.memory_analysis()
    line = {"name": name, "collectives": hlo.collectives(text, devices=8), "arguments": memory.argument_size_in_bytes,
            "results": memory.output_size_in_bytes, "temporary": memory.temp_size_in_bytes,
            "aliased": memory.alias_size_in_bytes, "seconds": seconds}
    if keep_hlo:
        line["explanation"] = text
    if check:
        results = compiled(*(values[0]() if values else jax.tree.map(wave, arguments)))
        line["values"] = [digest(result) for result in jax.tree.leaves(results)]
    return line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=PROGRAMS)
    parser.add_argument("--hlo", action="store_true", help="with each program's compiled text")
    parser.add_argument("--check", action="store_true", help="run them, too, and print what tells their results")
    options = parser.parse_args()
    if jax.device_count() != 8:
        sys.exit(f"expected 8 devices, got {jax.device_count()}: set XLA_FLAGS=--xla_force_host_platform_device_count=8")
    for name in options.only or PROGRAMS:
        try:
            line = measure(name, options.hlo, options.check)
        except Exception as error:  # the others are still measured; compare.py shows it
            line = {"name": name, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
