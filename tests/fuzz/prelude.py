# SPDX-License-Identifier: Apache-2.0
"""What the Python programs that the fuzzer prints are made of: JAX's functions with Lockstep's arguments."""
import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


def _make_mesh(axes):
    names = tuple(name for name, _ in axes)
    sizes = tuple(size for _, size in axes)
    return Mesh(np.array(jax.devices()[:np.prod(sizes)]).reshape(sizes), names, axis_types=(AxisType.Auto,) * len(names))


def _array(data, shape, dtype):
    if dtype == jnp.complex64:
        pairs = np.asarray(data, np.float32).reshape(-1, 2)
        return np.asarray(pairs[:, 0] + 1j * pairs[:, 1], np.complex64).reshape(shape)
    return np.asarray(data).astype(np.dtype(dtype)).reshape(shape)


def _conv(x, kernel):
    return jax.lax.conv_general_dilated(x, kernel, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))


def _max_pool(x, window):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, window, 1), (1, 1, 1), "VALID")


def _avg_pool(x, window):
    return jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, window, 1), (1, 1, 1), "VALID") / window


def _map(f, xs):
    return jax.lax.map(lambda x: f(*x), xs)


def _grad(f, operands, wrt):
    by = tuple(i for i, flag in enumerate(wrt) if flag)
    loss, gradients = jax.value_and_grad(lambda *x: f(*x)[0], argnums=by)(*operands)
    return (loss, *gradients)


def _vmap(f, operands, axes, out_axis, name):
    in_axes = tuple(None if axis < 0 else axis for axis in axes)
    return jax.vmap(f, in_axes=in_axes, out_axes=out_axis, axis_name=name)(*operands)


def _scan(f, operands, ints):
    carries, length, backwards = ints

    def step(carry, x):
        out = f(*carry, *x)
        return out[:carries], out[carries:]

    last, ys = jax.lax.scan(step, operands[:carries], operands[carries:], length=length, reverse=bool(backwards))
    return (*last, *ys)


def _fori_loop(f, operands, bounds):
    lower, upper = bounds
    numbers = jnp.arange(lower, max(lower, upper), dtype=jnp.int32)
    return jax.lax.scan(lambda carry, i: (f(i, *carry), None), operands, numbers)[0]


def _counted_loop(f, operands):
    return jax.lax.fori_loop(operands[0], operands[1], lambda i, carry: f(i, *carry), operands[2:])


def _while_loop(condition, step, operands):
    return jax.lax.while_loop(lambda carry: condition(*carry)[0], lambda carry: step(*carry), operands)


def _cond(on_true, on_false, operands):
    return jax.lax.cond(operands[0], on_true, on_false, *operands[1:])


def _switch(*branches_and_operands):
    *branches, operands = branches_and_operands
    return jax.lax.switch(operands[0], branches, *operands[1:])


def _jvp(f, operands):
    half = len(operands) // 2
    values, tangents = jax.jvp(f, operands[:half], operands[half:])
    return (*values, *tangents)


def _linearize(f, operands):
    half = len(operands) // 2
    values, push = jax.linearize(f, *operands[:half])
    return (*values, *push(*operands[half:]))


def _vjp(f, operands, ints):
    values, pull = jax.vjp(f, *operands[:ints[0]])
    return (*values, *pull(tuple(operands[ints[0]:])))


def _jacfwd(f, operands):
    return (jax.jacfwd(lambda x: f(x)[0])(*operands),)


def _jacrev(f, operands):
    return (jax.jacrev(lambda x: f(x)[0])(*operands),)


def _hessian(f, operands):
    return (jax.hessian(lambda x: f(x)[0])(*operands),)


def _custom_jvp(f, rule, operands):
    function = jax.custom_jvp(f)

    @function.defjvp
    def _(primals, tangents):
        value, tangent = rule(*primals, *tangents)
        return (value,), (tangent,)

    return function(*operands)


def _custom_vjp(f, forward, backward, operands):
    function = jax.custom_vjp(f)

    def first(*x):
        value, residual = forward(*x)
        return (value,), residual

    function.defvjp(first, lambda residual, cotangents: backward(residual, *cotangents))
    return function(*operands)


def _inexact(x):
    return jnp.issubdtype(x.dtype, jnp.inexact)


def _run(f, mesh, inputs, roles, cotangents, directions, derivatives, forward_over_reverse, in_specs=None, out_specs=None):
    """The values and derivatives, as tests/fuzz/run.cc computes them.

    With the variable FUZZ_PLACED the arrays lie as the program says; without, all devices have the whole of each, which
    changes no number, but that XLA's partitioner under JAX 0.10.2 gets some of them wrong where arrays are split.
    """
    placed = "FUZZ_PLACED" in os.environ
    arrays = [jax.device_put(data, NamedSharding(mesh, spec if placed else P())) for data, spec in inputs]
    captured = {i: x for i, x in enumerate(arrays) if roles[i] == "c"}
    arguments = tuple(x for i, x in enumerate(arrays) if roles[i] == "a")
    donated = tuple(x for i, x in enumerate(arrays) if roles[i] == "d")

    def whole(arguments, donated):
        arguments, donated = list(arguments), list(donated)
        x = [captured[i] if role == "c" else (arguments if role == "a" else donated).pop(0) for i, role in enumerate(roles)]

        def of(places):
            def function(*given):
                full = list(x)
                for place, value in zip(places, given):
                    full[place] = value
                return tuple(y for y in f(*full) if _inexact(y))
            return function

        values = f(*x)
        inexact = [i for i, y in enumerate(x) if _inexact(y) and roles[i] != "c"]
        floating = [i for i in inexact if jnp.issubdtype(x[i].dtype, jnp.floating)]
        extra = ()
        if derivatives >= 1 and inexact and cotangents:
            extra += jax.vjp(of(inexact), *[x[i] for i in inexact])[1](tuple(jnp.asarray(c) for c in cotangents))
        if derivatives >= 2 and floating and cotangents:
            def loss(*given):
                total = jnp.zeros((), jnp.float32)
                for y, c in zip(of(floating)(*given), cotangents):
                    product = jnp.real(y * c)
                    total = total + jnp.sum(product.astype(jnp.float64 if product.dtype == jnp.float64 else jnp.float32))
                return total.astype(jnp.float32)

            every = tuple(range(len(floating)))
            gradient = jax.grad(loss, argnums=every)
            point = tuple(x[i] for i in floating)
            if forward_over_reverse:
                extra += jax.jvp(gradient, point, tuple(jnp.asarray(d) for d in directions))[1]
            else:
                def slope(*given):
                    total = jnp.zeros((), jnp.float32)
                    for g, d in zip(gradient(*given), directions):
                        product = g * d
                        total = total + jnp.sum(product.astype(jnp.float64 if product.dtype == jnp.float64 else jnp.float32))
                    return total.astype(jnp.float32)

                extra += jax.grad(slope, argnums=every)(*point)
        return tuple(values), tuple(extra)

    options = {}
    if in_specs and placed:
        options["in_shardings"] = tuple(NamedSharding(mesh, spec) for spec in in_specs)
        arguments = jax.device_put(arguments, options["in_shardings"][0])
        donated = jax.device_put(donated, options["in_shardings"][1])
    if out_specs and placed:
        options["out_shardings"] = tuple(NamedSharding(mesh, spec) for spec in out_specs)
    # Donation changes no numbers.
    values, extra = jax.jit(whole, **options)(arguments, donated)
    return list(values) + list(extra)
