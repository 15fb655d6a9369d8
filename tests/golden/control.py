#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/control.json: what JAX gives for associative scans, solvers with derivatives of their own and
products with a dtype of their own, for control_test.cc.

Run it with JAX at the version below (it is checked):
    python3 -m venv v && v/bin/pip install jax==0.10.2 jaxlib==0.10.2 && v/bin/python tests/golden/control.py
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.sparse import linalg

from family import check_versions, numbers, put, write

VERSIONS = {"jax": "0.10.2", "jaxlib": "0.10.2"}


def derivative(name, function, *args):
    """The value, and the derivatives of its sum times numbers(…, 9) by each argument."""
    value = function(*args)
    put(name, value)
    grads = jax.grad(lambda *a: jnp.sum(function(*a).astype(jnp.float32) * numbers(value.shape, 9)), tuple(range(len(args))))(*args)
    for i, grad in enumerate(grads):
        put(f"{name}: by {i}", grad)


def forwards(name, function, x):
    """The tangent along numbers(…, 7), and two second derivatives of the sum of sines."""
    along = numbers(x.shape, 7)
    put(f"{name}: along", jax.jvp(function, (x,), (along,))[1])
    loss = lambda x: jnp.sum(jnp.sin(function(x)))
    put(f"{name}: hessian", jax.hessian(loss)(x))
    put(f"{name}: of the tangent", jax.grad(lambda x: jax.jvp(loss, (x,), (along,))[1])(x))


def associative_scans():
    def affine(first, second):
        return first[0] * second[0], second[0] * first[1] + second[1]

    for n in (1, 2, 7, 8):
        derivative(f"associative_scan({n})", lambda a, b: lax.associative_scan(affine, (a, b))[1], numbers((n, 3), 1), numbers((n, 3), 2))
    derivative("associative_scan(reverse)", lambda a, b: lax.associative_scan(affine, (a, b), reverse=True)[1],
               numbers((5, 3), 1), numbers((5, 3), 2))
    derivative("associative_scan(axis=1)", lambda x: lax.associative_scan(jnp.add, x, axis=1), numbers((3, 6), 1))
    derivative("associative_scan(matmul)", lambda x: lax.associative_scan(jnp.matmul, x), numbers((5, 2, 2), 3))


def loops():
    def bounded(w, x):
        def step(carry, _):
            goes_on = jnp.sum(jnp.abs(carry)) < 40
            return jnp.where(goes_on, carry * w + 0.5, carry), None
        return lax.scan(step, x, None, length=11)[0]

    derivative("checkpointed_while_loop", bounded, 1.25 + numbers((4,), 1) / 4, numbers((4,), 2))


def solvers():
    matrix = numbers((4, 4), 1) + 3 * jnp.eye(4)
    positive = numbers((4, 4), 2) @ numbers((4, 4), 2).T + 2 * jnp.eye(4)
    b = numbers((4,), 3)
    derivative("linear_solve", jnp.linalg.solve, matrix, b)
    derivative("linear_solve(second derivative)",
               lambda a, b: jax.grad(lambda b: jnp.sum(jnp.sin(jnp.linalg.solve(a, b))))(b), matrix, b)
    forwards("linear_solve by its matrix", lambda a: jnp.linalg.solve(a, b), matrix)
    forwards("linear_solve by its right side", lambda b: jnp.linalg.solve(matrix, b), b)
    # JAX cannot take the reverse derivative of cg's tangent: these are the exact solution's.
    forwards("cg", lambda b: jnp.linalg.solve(positive, b), b)
    derivative("cg", lambda a, b: linalg.cg(lambda x: a @ x, b, tol=1e-7)[0], positive, b)
    derivative("gmres", lambda a, b: linalg.gmres(lambda x: a @ x, b, tol=1e-7)[0], matrix, b)

    def root(a):
        f = lambda x: x**3 + a * x - 2
        newton = lambda f, x0: lax.fori_loop(0, 12, lambda _, x: x - f(x) / jax.grad(lambda v: jnp.sum(f(v)))(x), x0)
        return lax.custom_root(f, jnp.ones_like(a), newton, lambda g, y: y / g(jnp.ones_like(y)))

    derivative("custom_root", root, jnp.abs(numbers((4,), 4)) + 0.5)
    forwards("custom_root", root, jnp.abs(numbers((4,), 4)) + 0.5)


def products():
    x, y = numbers((3, 4), 1).astype(jnp.bfloat16) * 1.0078125, numbers((4, 2), 2).astype(jnp.bfloat16) * 1.0078125
    f32 = jnp.float32
    derivative("matmul(bf16 to f32)", lambda x, y: jnp.matmul(x, y, preferred_element_type=f32), x, y)
    derivative("einsum(bf16 to f32)", lambda x, y: jnp.einsum("ij,jk,ik->k", x, y, x @ y, preferred_element_type=f32), x, y)
    put("dot(i8 to i32)", jnp.dot(jnp.full((2, 5), 100, jnp.int8), jnp.full((5, 3), 90, jnp.int8), preferred_element_type=jnp.int32))
    image, kernel = numbers((1, 4, 4, 2), 3).astype(jnp.bfloat16), numbers((2, 2, 2, 3), 4).astype(jnp.bfloat16)
    # JAX has no derivative of this one: that of the product in f32 is it.
    conv = lambda x, k: lax.conv_general_dilated(x.astype(f32), k.astype(f32), (1, 1), "SAME",
                                                 dimension_numbers=("NHWC", "HWIO", "NHWC"))
    derivative("conv(bf16 to f32)", conv, image, kernel)


def main():
    check_versions(VERSIONS)
    associative_scans()
    loops()
    solvers()
    products()
    write("control.json")


main()
