#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/pmap.json: what JAX gives for derivatives under pmap, for pmap_test.cc.

Run it with JAX at the versions below (they are checked):
    python3 -m venv v && v/bin/pip install jax==0.10.2 jaxlib==0.10.2 && v/bin/python tests/golden/pmap.py
"""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from family import check_versions, numbers, put, write

VERSIONS = {"jax": "0.10.2", "jaxlib": "0.10.2"}
W, X = numbers((3,), 1), numbers((2, 3), 2)


def whole(name, f, out_axes=0):
    """f(w, x) for a w that every device gets, and x by rows; then the same with a captured w."""
    put(name, jax.pmap(f, "i", in_axes=(None, 0), out_axes=out_axes)(W, X))
    put(f"{name}, captured", jax.pmap(lambda x: f(W, x), "i", out_axes=out_axes)(X))


def main():
    check_versions(VERSIONS)
    loss = lambda w, x: jnp.sum((w * x + 0.5) ** 3)
    mean_loss = lambda w, x: lax.pmean(loss(w, x), "i")
    sum_loss = lambda w, x: lax.psum(loss(w, x), "i")
    within = lambda w, x: jnp.sum(x * lax.psum(w * x, "i") ** 2)
    whole("grad", jax.grad(loss))
    whole("pmean of grad", lambda w, x: lax.pmean(jax.grad(loss)(w, x), "i"), None)
    whole("grad of pmean", jax.grad(mean_loss))
    whole("grad of psum", jax.grad(sum_loss))
    whole("grad of psum by x", jax.grad(sum_loss, 1))
    whole("grad of a psum within", jax.grad(within))
    whole("grad of a psum of w alone", jax.grad(lambda w, x: jnp.sum(lax.psum(w * w, "i"))))
    whole("value of value_and_grad", lambda w, x: jax.value_and_grad(mean_loss)(w, x)[0], None)
    whole("grad of w alone", jax.grad(lambda w, x: jnp.sum(w ** 3)), None)
    whole("vjp", lambda w, x: jax.vjp(lambda w: lax.psum(w * x, "i"), w)[1](x)[0])
    whole("vjp with a cotangent of all", lambda w, x: jax.vjp(lambda w: lax.psum(w * x, "i"), w)[1](w)[0])
    whole("jvp", lambda w, x: jax.jvp(lambda w: lax.psum(w * w * x, "i"), (w,), (w,))[1])
    whole("jacrev", lambda w, x: jax.jacrev(lambda w: lax.psum(w * w * x, "i"))(w))
    whole("jacfwd", lambda w, x: jax.jacfwd(lambda w: lax.psum(w * w * x, "i"))(w))
    whole("hessian", lambda w, x: jax.hessian(mean_loss)(w, x))
    whole("grad of grad", jax.grad(lambda w, x: jnp.sum(jax.grad(mean_loss)(w, x) ** 2)))
    whole("grad of all_gather", jax.grad(lambda w, x: jnp.sum(lax.all_gather(w * x, "i") ** 2)))
    whole("grad of ppermute", jax.grad(lambda w, x: jnp.sum(x * lax.ppermute(w * x, "i", [(0, 1), (1, 0)]))))
    whole("grad of axis_index", jax.grad(lambda w, x: jnp.sum(w * w * lax.axis_index("i"))))
    whole("grad of a scan", jax.grad(lambda w, x: lax.scan(
        lambda c, row: (c + jnp.sum(lax.psum(w * row, "i") ** 2 * row), None), jnp.float32(0), jnp.stack([x, w]))[0]))
    whole("grad by a number", lambda w, x: jax.grad(lambda c: lax.pmean(jnp.sum(c * c * w * x), "i"))(2.0))
    write("pmap.json")


main()
