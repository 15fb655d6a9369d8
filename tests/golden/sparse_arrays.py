#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/sparse_arrays.json: what jax.experimental.sparse gives, for sparse_arrays_test.cc.

Run it with JAX at the versions below (they are checked):
    python3 -m venv v && v/bin/pip install jax==0.10.2 jaxlib==0.10.2 && v/bin/python tests/golden/sparse_arrays.py
"""

import jax

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import numpy as np
from jax.experimental import sparse

from family import check_versions, numbers, put, write

VERSIONS = {"jax": "0.10.2", "jaxlib": "0.10.2"}
SHAPE = (5, 4)
# Row 3 is empty. (1, 2) and (4, 0) occur twice, (5, 1) and (0, 4) are out of bounds.
ROWS = np.array([4, 1, 0, 1, 5, 2, 0, 4, 4, 2], np.int32)
COLUMNS = np.array([0, 2, 1, 2, 1, 3, 4, 0, 3, 0], np.int32)


def both(name, x):
    """The parts of complex numbers are two arrays."""
    if jnp.iscomplexobj(x):
        put(f"{name}, real", x.real)
        put(f"{name}, imag", x.imag)
    else:
        put(name, x)


def bcoo(x):
    return sparse.BCOO((x, jnp.stack([ROWS, COLUMNS], 1)), shape=SHAPE)


def of_dtype(name, dtype):
    turn = 1 + 0.5j if dtype == np.complex64 else 1
    given = lambda shape, seed: (numbers(shape, seed) * turn).astype(dtype)
    data, x, y = given((10,), 1), given((4,), 2), given((5,), 3)
    right, left = given((4, 3), 4), given((3, 5), 5)
    m = bcoo(data)
    dense = jnp.where(jnp.abs(given(SHAPE, 6)) > 0.4, given(SHAPE, 6), 0).at[3].set(0)
    r = sparse.BCSR.fromdense(dense)
    both(f"{name}: todense", m.todense())
    both(f"{name}: sum_duplicates", m.sum_duplicates().data)
    both(f"{name}: fromdense", sparse.BCOO.fromdense(dense).data)
    both(f"{name}: BCSR.fromdense", r.data)
    for kind, a in (("BCOO", m), ("BCSR", r)):
        both(f"{name}: {kind} @ vector", a @ x)
        both(f"{name}: {kind} @ matrix", a @ right)
        at_right = lambda a: a.to_bcoo() if isinstance(a, sparse.BCSR) else a  # all that JAX has there
        both(f"{name}: vector @ {kind}", y @ at_right(a))
        both(f"{name}: matrix @ {kind}", left @ at_right(a))
        both(f"{name}: transposed {kind} @ vector", at_right(a).T @ y)
        remade = lambda d, a=a: sparse.BCSR((d, a.indices, a.indptr), shape=SHAPE) if kind == "BCSR" else bcoo(d)
        loss = lambda d, x: jnp.sum(jnp.abs(remade(d) @ x + 1) ** 2)
        loss_left = lambda d, y: jnp.sum(jnp.abs(y @ at_right(remade(d)) + 1) ** 2)
        both(f"{name}: grad by {kind}", jax.grad(loss)(a.data, x))
        both(f"{name}: grad by {kind}, of a matrix", jax.grad(loss)(a.data, right))
        both(f"{name}: grad by the vector of {kind}", jax.grad(loss, 1)(a.data, x))
        both(f"{name}: grad by {kind} at the right", jax.grad(loss_left)(a.data, y))
        both(f"{name}: grad by the vector left of {kind}", jax.grad(loss_left, 1)(a.data, y))
        both(f"{name}: jvp of {kind}", jax.jvp(lambda d, x: remade(d) @ x, (a.data, x), (2 * a.data, x + 1))[1])
        if name == "float32":
            both(f"hessian by the vector of {kind}",
                 jax.jacfwd(jax.grad(lambda x: jnp.sum((remade(a.data) @ x) ** 3)))(x))


def main():
    check_versions(VERSIONS)
    for dtype in (np.float32, np.float64, np.complex64):
        of_dtype(np.dtype(dtype).name, dtype)
    data = numbers((10,), 1)
    m = bcoo(data)
    dense = jnp.where(jnp.abs(numbers(SHAPE, 6)) > 0.4, numbers(SHAPE, 6), 0).at[3].set(0)
    put("indices of sum_duplicates", m.sum_duplicates().indices)
    put("indices of sum_duplicates(nse=9)", m.sum_duplicates(nse=9).indices)
    put("indices of fromdense", sparse.BCOO.fromdense(dense).indices)
    put("indices of fromdense(nse=16)", sparse.BCOO.fromdense(dense, nse=16).indices)
    put("data of fromdense(nse=16)", sparse.BCOO.fromdense(dense, nse=16).data)
    put("indices of fromdense(nse=3)", sparse.BCOO.fromdense(dense, nse=3).indices)
    put("indices of the transpose", sparse.BCOO.fromdense(dense).T.indices)
    cube = jnp.where(numbers((2, 3, 4), 2) > 0, numbers((2, 3, 4), 2), 0)
    put("indices of fromdense of a cube", sparse.BCOO.fromdense(cube).indices)
    put("a cube transposed", sparse.BCOO.fromdense(cube).transpose((2, 0, 1)).todense())
    r = sparse.BCSR.fromdense(dense)
    put("columns of BCSR", r.indices)
    put("indptr of BCSR", r.indptr)
    lacking = sparse.BCOO.fromdense(dense.at[:, 2].set(0))
    x = numbers((4,), 2).at[2].set(jnp.nan)
    put("NaN times absent elements, BCOO", lacking @ x)
    put("NaN times absent elements, BCSR", sparse.BCSR.from_bcoo(lacking) @ x)
    put("NaN times present elements", sparse.BCOO.fromdense(dense) @ x)
    none = sparse.BCOO.fromdense(jnp.zeros(SHAPE, np.float32))
    put("no elements, todense", none.todense())
    put("no elements @ vector", none @ x)
    negative = sparse.BCOO((data, m.indices - jnp.array(SHAPE, np.int32)), shape=SHAPE)
    put("negative indices, todense", negative.todense())
    put("negative indices @ vector", negative @ numbers((4,), 2))
    put("NaN out of bounds @ vector",
        sparse.BCOO((data.at[4].set(jnp.nan), m.indices), shape=SHAPE) @ numbers((4,), 2))
    write("sparse_arrays.json")


main()
