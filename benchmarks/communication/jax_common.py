# SPDX-License-Identifier: Apache-2.0
"""What JAX's programs of this folder are made with: their list, meshes, arguments, and what tells their results."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

F32, I32 = jnp.float32, jnp.int32
PROGRAMS = {}


def program(name):
    """Of a function that returns what is jitted, its arguments, and where its results shall be."""
    def register(make):
        PROGRAMS[name] = make
        return make
    return register


def mesh_of(**axes):
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=(jax.sharding.AxisType.Auto,) * len(axes))


class Placed:
    """Makes arguments and shardings over one mesh."""

    def __init__(self, **axes):
        self.mesh = mesh_of(**axes)

    def __call__(self, shape, spec=P(), dtype=F32):
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(self.mesh, spec))

    def on(self, *specs):
        return tuple(NamedSharding(self.mesh, spec) for spec in specs)

    def constrain(self, x, *entries):
        return jax.lax.with_sharding_constraint(x, NamedSharding(self.mesh, P(*entries)))


WAVE = (0.1 * np.sin(0.7 * np.arange(9973))).astype(np.float32)


def wave(argument):
    """Values for an argument, the same as Lockstep's side gives it."""
    at = np.arange(np.prod(argument.shape, dtype=int)).reshape(argument.shape)
    values = WAVE[at % len(WAVE)] if argument.dtype == F32 else (at * 7919 + 100) % 251
    return jax.device_put(values.astype(argument.dtype), argument.sharding)


def digest(result):
    """Two means of a result: of its elements' sizes, and of its elements times others that tell their places."""
    values = np.asarray(result, np.float64).ravel()
    return [np.abs(values).mean(), (values * WAVE[np.arange(len(values)) % len(WAVE)]).mean()]


def descend(params, grads):
    """A step so long that an error of the gradient is one of the result, in what --check compares."""
    return jax.tree.map(lambda p, g: p - 1e4 * g, params, grads)
