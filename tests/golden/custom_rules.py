# SPDX-License-Identifier: Apache-2.0
"""JAX's numbers for functions with derivative rules of their own within all that holds programs: scans, loops, choices,
remat, other rules, jit. Writes custom_rules.json, which custom_rules_test.cc compares with:

    python3 -m pip install jax==0.10.2 && python3 tests/golden/custom_rules.py

Every rule says 1 + x^2 where the function itself has the derivative zero. What JAX refuses is written as "refused".
"""

import functools
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

POINTS = [[0.7, -1.3, 2.2], [-0.4, 1.6, 0.3]]
TANGENT = jnp.array([0.5, -1.0, 2.0], jnp.float32)
WEIGHTS = jnp.array([1.0, -2.0, 0.5], jnp.float32)

PRIMALS = {
    "round": lambda x: jnp.round(x),
    "sign": lambda x: jnp.sign(x),
    "floor": lambda x: jnp.floor(x),
    "cast": lambda x: x.astype(jnp.int32).astype(jnp.float32),
}


def with_jvp(primal):
  f = jax.custom_jvp(primal)
  f.defjvp(lambda x, t: (primal(x[0]), t[0] * (1 + x[0] * x[0])))
  return f


def with_vjp(primal):
  f = jax.custom_vjp(primal)
  f.defvjp(lambda x: (primal(x), x), lambda x, g: (g * (1 + x * x),))
  return f


def outer_jvp(q):
  """Its rule differentiates nothing itself, but calls q."""
  f = jax.custom_jvp(lambda x: 2 * q(x))
  f.defjvp(lambda x, t: (2 * q(x[0]), t[0] * (q(x[0]) + x[0])))
  return f


def outer_vjp(q):
  f = jax.custom_vjp(lambda x: q(x) * x)
  f.defvjp(lambda x: (q(x) * x, x), lambda x, g: (g * (q(x) + x),))
  return f


def calls_itself(q):
  """Its rule calls it."""

  @jax.custom_jvp
  def f(x):
    return q(x) + 3

  f.defjvp(lambda x, t: (f(x[0]), t[0] * f(x[0])))
  return f


def scan_over(q):
  def f(x):
    def step(h, w):
      h = h * (q(w) + 0.5)
      return h, h

    return lax.scan(step, jnp.float32(1), x)[1]

  return f


def scan_carry(q):
  return lambda x: lax.scan(lambda c, _: (0.5 * q(c) + jnp.sin(c), None), x, None, length=3)[0]


def scan_constant(q):
  return lambda x: lax.scan(lambda c, w: (c * w + q(x), c[0]), jnp.ones(3), jnp.array([0.5, 2.0]))[0]


def scan_reverse(q):
  def f(x):
    def step(h, w):
      h = h + q(w) * w
      return h, h

    return lax.scan(step, jnp.float32(0), x, reverse=True)[1]

  return f


def scan_in_scan(q):
  def f(x):
    def outer(c, _):
      return lax.scan(lambda c, w: (0.3 * q(c) + w, None), c, jnp.stack([x, jnp.cos(x)]))[0], None

    return lax.scan(outer, x, None, length=2)[0]

  return f


def cond_in_scan(q):
  def f(x):
    def step(c, w):
      return lax.cond(w > 0, lambda c: q(c) * 0.4, jnp.sin, c), None

    return lax.scan(step, x, x)[0]

  return f


def remat_in_scan(q):
  return lambda x: lax.scan(lambda c, w: (jax.checkpoint(lambda c: q(c) * w)(c), None), x, jnp.array([0.6, 0.9]))[0]


def fori(q):
  return lambda x: lax.fori_loop(0, 3, lambda i, c: 0.4 * q(c) + i * c, x)


def while_(q):
  def f(x):
    return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, 0.4 * q(s[1]) + x), (0, x))[1]

  return f


def cond_true(q):
  return lambda x: lax.cond(x[2] < 9, lambda x: q(x) * x, jnp.sin, x)


def cond_false(q):
  return lambda x: lax.cond(x[2] > 9, jnp.sin, lambda x: q(x) * x, x)


def cond_by_value(q):
  """The points go different ways."""
  return lambda x: lax.cond(x[0] > 0, q, jnp.cos, x)


def switch(q):
  return lambda x: lax.switch(jnp.int32(jnp.abs(x[1])), [jnp.sin, lambda x: q(x) * x, jnp.cos], x)


NESTINGS = {
    "alone": lambda q: lambda x: q(x) * x,
    "scan_over": scan_over,
    "scan_carry": scan_carry,
    "scan_constant": scan_constant,
    "scan_reverse": scan_reverse,
    "scan_in_scan": scan_in_scan,
    "cond_in_scan": cond_in_scan,
    "remat_in_scan": remat_in_scan,
    "fori_loop": fori,
    "while_loop": while_,
    "cond_true": cond_true,
    "cond_false": cond_false,
    "cond_by_value": cond_by_value,
    "switch": switch,
    "remat": lambda q: lambda x: jax.checkpoint(lambda x: jnp.sin(q(x)) * x)(x),
    "map": lambda q: lambda x: lax.map(lambda v: q(v) * v, x),
    "vmap": lambda q: lambda x: jax.vmap(lambda v: q(v) * v)(x),
    "jit": lambda q: lambda x: jax.jit(lambda x: jax.jit(q)(x) * x)(x),
    "custom_jvp": outer_jvp,
    "custom_vjp": outer_vjp,
    "calls_itself": calls_itself,
}


def loss(f):
  return lambda x: jnp.sum(WEIGHTS * f(x))


TRANSFORMS = {
    "value": lambda f, x: f(x),
    "jvp": lambda f, x: jax.jvp(f, (x,), (TANGENT,))[1],
    "linearize": lambda f, x: jax.linearize(f, x)[1](TANGENT),
    "jacfwd": lambda f, x: jax.jacfwd(f)(x),
    "vjp": lambda f, x: jax.vjp(f, x)[1](TANGENT)[0],
    "grad": lambda f, x: jax.grad(loss(f))(x),
    "jacrev": lambda f, x: jax.jacrev(f)(x),
    "hessian": lambda f, x: jax.hessian(loss(f))(x),
    "grad of grad": lambda f, x: jax.grad(lambda x: jnp.sum(WEIGHTS * jax.grad(loss(f))(x)))(x),
}


# JAX's messages about missing derivatives: forwards of a custom_vjp, backwards of a loop of unknown length.
REFUSALS = ("can't apply forward-mode autodiff (jvp) to a custom_vjp function",
            "Reverse-mode differentiation does not work for lax.while_loop")


def refused(function, x):
  try:
    jax.jit(function).lower(x)
    return False
  except (TypeError, ValueError) as error:
    if not str(error).startswith(REFUSALS):
      raise
    return True


def run(f):
  """For each transformation the numbers at all points, or "refused". Under vmap they must be the same."""
  points = jnp.array(POINTS, jnp.float32)
  given = {name: functools.partial(t, f) for name, t in TRANSFORMS.items()}
  given = {name: t for name, t in given.items() if not refused(t, points[0])}
  each = jax.jit(lambda xs: {name: jnp.stack([t(x) for x in xs]) for name, t in given.items()})(points)
  together = jax.jit(lambda xs: {name: jax.vmap(t)(xs) for name, t in given.items()})(points)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5), each, together)
  jax.clear_caches()
  return {name: [float(f"{value:.7g}") for value in np.asarray(each[name]).flatten()] if name in given else "refused"
          for name in TRANSFORMS}


def main():
  cases = {}
  for rule, make in {"jvp": with_jvp, "vjp": with_vjp}.items():
    for primal, function in PRIMALS.items():
      for nesting, nest in NESTINGS.items():
        f = nest(make(function))
        cases[f"{rule} {primal} {nesting}"] = run(f)
  path = pathlib.Path(__file__).parent / "custom_rules.json"
  lines = [f"  {json.dumps(name)}: {json.dumps(results, separators=(',', ':'))}" for name, results in cases.items()]
  path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
  main()
