# SPDX-License-Identifier: Apache-2.0
"""Cases of arrays: made, moved, indexed, ordered, and windows of them. generate.py calls `cases`."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def inputs(rng, grid):
    return {
        "ids": np.array([2, 0, 3, 0, 1], np.int32),
        "columns": np.array([5, 1, 0, -1, 3], np.int32),
        "places": rng.integers(0, 4, (4, 6)).astype(np.int32),
        "one": np.array([2], np.int32),
        "rising": np.sort(grid(-2, 2, (6,))),
        "equals": rng.integers(0, 4, (4, 6)).astype(np.int32),
        "counts": np.array([1, 0, 3, 2], np.int32),
        "segments": np.array([2, 0, 2, 1], np.int32),
        "images": grid(-1, 1, (2, 2, 5, 5)),
        "kernels": grid(-1, 1, (4, 2, 3, 2)),
        "grouped": grid(-1, 1, (4, 1, 3, 2)),
        "last": grid(-1, 1, (2, 5, 6, 3)),
        "kernels_last": grid(-1, 1, (3, 2, 3, 2)),
        "line": grid(-1, 1, (2, 7, 3)),
        "kernels_line": grid(-1, 1, (3, 3, 2)),
        "distinct": rng.permutation(30).reshape(2, 3, 5, 1).astype(np.float32) / 8,
        "values6": grid(-2, 2, (5, 6)),
        "values5": grid(-2, 2, (5,)),
        "part": grid(-2, 2, (2, 3)),
    }


def creation(case):
    exact = dict(diff=False, exact=True)
    case("zeros", lambda: jnp.zeros((2, 3)), **exact)
    case("ones(i32)", lambda: jnp.ones((2, 3), np.int32), **exact)
    case("full", lambda: jnp.full((2, 3), 1.5), **exact)
    case("zeros_like", jnp.zeros_like, "ints", **exact)
    case("ones_like", jnp.ones_like, "x", **exact)
    case("full_like", lambda x: jnp.full_like(x, 2), "x", **exact)
    case("arange(7)", lambda: jnp.arange(7), **exact)
    case("arange(0.5, 3, 0.25)", lambda: jnp.arange(0.5, 3, 0.25), **exact)
    case("arange(9, -3, -2)", lambda: jnp.arange(9, -3, -2), **exact)
    case("linspace", lambda: jnp.linspace(-1, 2, 7), diff=False)
    case("eye", lambda: jnp.eye(3, 4), **exact)
    case("tri", lambda: jnp.tri(3, 4, 1), **exact)
    case("one_hot", lambda i: jax.nn.one_hot(i, 4), "ids", **exact)
    case("meshgrid", lambda x, y: tuple(jnp.meshgrid(x, y)), "row", "vector", ulp=0)
    case("meshgrid(ij, sparse)", lambda x, y: tuple(jnp.meshgrid(x, y, indexing="ij", sparse=True)), "row", "vector",
         ulp=0)


def moving(case):
    both = dict(ulp=0)
    case("reshape", lambda x: x.reshape(3, -1), "x", **both)
    case("ravel", jnp.ravel, "x", **both)
    case("transpose", jnp.transpose, "wide", **both)
    case("transpose(axes)", lambda x: jnp.transpose(x, (1, 2, 0)), "wide", **both)
    case("swapaxes", lambda x: jnp.swapaxes(x, 0, -1), "wide", **both)
    case("moveaxis", lambda x: jnp.moveaxis(x, 0, 2), "wide", **both)
    case("expand_dims", lambda x: jnp.expand_dims(x, 1), "x", **both)
    case("squeeze", jnp.squeeze, "distinct", **both)
    case("broadcast_to", lambda x: jnp.broadcast_to(x, (2, 4, 6)), "x", **both)
    case("concatenate", lambda x, y: jnp.concatenate([x, y], 1), "x", "y", **both)
    case("stack", lambda x, y: jnp.stack([x, y], 1), "x", "y", **both)
    case("split", lambda x: tuple(jnp.split(x, 3, 1)), "x", **both)
    case("split_at", lambda x: tuple(jnp.split(x, [1, 4], 1)), "x", **both)
    case("array_split", lambda x: tuple(jnp.array_split(x, 4, 1)), "x", **both)
    case("hstack", lambda x, y: jnp.hstack([x, y]), "x", "y", **both)
    case("vstack", lambda x, y: jnp.vstack([x, y]), "x", "row", **both)
    case("dstack", lambda x, y: jnp.dstack([x, y]), "x", "y", **both)
    case("column_stack", lambda x, y: jnp.column_stack([x, y]), "vector", "x", **both)
    case("append", jnp.append, "x", "row", **both)
    case("tile", lambda x: jnp.tile(x, (2, 1, 3)), "matrix", **both)
    case("repeat", lambda x: jnp.repeat(x, 2, axis=1), "x", **both)
    case("repeat(counts)", lambda x, n: jnp.repeat(x, n, axis=0, total_repeat_length=6), "x", "counts", **both)
    case("repeat(counts, longer)", lambda x, n: jnp.repeat(x, n, axis=0, total_repeat_length=8), "x", "counts", **both)
    case("pad", lambda x: jnp.pad(x, ((1, 0), (2, 1)), constant_values=0.5), "x", **both)
    case("flip", jnp.flip, "x", **both)
    case("flip(axis=1)", lambda x: jnp.flip(x, 1), "x", **both)
    case("flipud", jnp.flipud, "x", **both)
    case("fliplr", jnp.fliplr, "x", **both)
    case("rot90", jnp.rot90, "x", **both)
    case("roll", lambda x: jnp.roll(x, 5), "x", **both)
    case("roll(axis=1)", lambda x: jnp.roll(x, -2, 1), "x", **both)
    case("diag", jnp.diag, "row", **both)
    case("diag(matrix)", lambda x: jnp.diag(x, 1), "x", **both)
    case("diagonal", lambda x: jnp.diagonal(x, 1, 0, 2), "wide", **both)
    case("trace", jnp.trace, "x", **both)
    case("tril", lambda x: jnp.tril(x, 1), "x", **both)
    case("triu", lambda x: jnp.triu(x, -1), "wide", **both)
    case("slice", lambda x: lax.slice(x, (1, 0), (4, 6), (2, 3)), "x", **both)
    case("dynamic_slice", lambda x, i: lax.dynamic_slice(x, (i[0], i[0]), (2, 3)), "x", "one", **both)
    case("dynamic_slice(past the end)", lambda x, i: lax.dynamic_slice(x, (i[0] + 1, i[0] + 9), (2, 3)), "x", "one", **both)
    case("dynamic_update_slice", lambda x, u, i: lax.dynamic_update_slice(x, u, (i[0] - 1, i[0])), "x", "part", "one",
         **both)


def indexing(case):
    both = dict(ulp=0)
    case("index(1)", lambda x: x[1], "x", **both)
    case("index(-1, ::2)", lambda x: x[-1, ::2], "x", **both)
    case("index(:, 4:0:-2)", lambda x: x[:, 4:0:-2], "x", **both)
    case("index(..., newaxis, 1)", lambda x: x[..., None, 1], "wide", **both)
    case("index(ids)", lambda x, i: x[i], "x", "ids", **both)
    case("index(ids, columns)", lambda x, i, j: x[i, j], "x", "ids", "columns", **both)
    case("index(:, :, ids)", lambda x, i: x[:, :, i], "wide", "ids", **both)
    case("index(0, :, ids)", lambda x, i: x[0, :, i], "wide", "ids", **both)
    case("at.get", lambda x, i: x.at[i + 2].get(mode="fill", fill_value=-1), "x", "ids", **both)
    case("at.set(1, ::2)", lambda x: x.at[1, ::2].set(0.5), "x", **both)
    case("at.set(columns)", lambda x, j, v: x.at[1, j].set(v), "x", "columns", "values5", **both)
    case("at.add", lambda x, i, v: x.at[i].add(v), "x", "ids", "values6", **both)
    case("at.add(ids, columns)", lambda x, i, j, v: x.at[i, j].add(v), "x", "ids", "columns", "values5", **both)
    case("at.multiply", lambda x, v: x.at[:, 1:3].multiply(v[0]), "x", "row", **both)
    case("at.min", lambda x, i, v: x.at[i].min(v), "x", "ids", "values6", diff=False, **both)
    case("at.max", lambda x, i, v: x.at[i].max(v), "x", "ids", "values6", diff=False, **both)
    case("take", lambda x, i: jnp.take(x, i), "x", "places", **both)
    case("take(axis=1)", lambda x, i: jnp.take(x, i, axis=1), "x", "ids", **both)
    case("take_along_axis", lambda x, i: jnp.take_along_axis(x, i, 0), "x", "places", **both)
    case("put_along_axis", lambda x, i, v: jnp.put_along_axis(x, i[:, :1], v[:, :1], 1, inplace=False), "x", "places",
         "y", **both)


def order(case):
    both, exact = dict(ulp=0), dict(diff=False, exact=True)
    case("sort", jnp.sort, "x", **both)
    case("sort(axis=1, descending)", lambda x: jnp.sort(x, axis=1, descending=True), "distinct", **both)
    case("sort(special)", lambda x: jnp.sort(x, axis=None), "special", **exact)
    case("argsort", jnp.argsort, "equals", **exact)
    case("argsort(descending)", lambda x: jnp.argsort(x, axis=0, descending=True), "equals", **exact)
    case("lexsort", lambda x, y: jnp.lexsort((x, y)), "x", "equals", **exact)
    case("top_k", lambda x: lax.top_k(x, 3)[0], "x", **both)
    case("top_k(places)", lambda x: lax.top_k(x, 3)[1], "equals", **exact)
    case("searchsorted", jnp.searchsorted, "rising", "x", **exact)
    case("searchsorted(right)", lambda s, x: jnp.searchsorted(s, x, side="right"), "rising", "rising", **exact)
    case("quantile", lambda x: jnp.quantile(x, jnp.array([0.25, 0.7]), axis=1), "x")
    case("quantile(nearest)", lambda x: jnp.quantile(x, 0.3, axis=0, method="nearest"), "x", **both)
    case("percentile", lambda x: jnp.percentile(x, 30.0), "x")
    case("median", lambda x: jnp.median(x, axis=1), "x", ulp=2)
    for name in ["cumsum", "cumprod"]:
        case(name, lambda x, f=getattr(jnp, name): f(x, axis=1), "x", ulp=2)
        case(name + "(i32)", lambda x, f=getattr(jnp, name): f(x % 5), "ints", **exact)
    for name in ["cummax", "cummin"]:
        case(name, lambda x, f=getattr(lax, name): f(x, axis=1), "x", **both)
    case("cumsum(reverse)", lambda x: lax.cumsum(x, axis=0, reverse=True), "x", ulp=2)
    case("cumlogsumexp", lambda x: lax.cumlogsumexp(x, axis=1), "x")
    case("diff", lambda x: jnp.diff(x, n=2), "x", ulp=2)
    case("unique", lambda x: jnp.unique(x, size=6), "equals", **exact)
    case("unique(fill_value)", lambda x: jnp.unique(x, size=6, fill_value=9), "equals", **exact)
    case("unique_all", lambda x: tuple(jnp.unique(x, size=4, return_index=True, return_inverse=True,
                                                  return_counts=True)), "equals", **exact)
    case("nonzero", lambda x: jnp.nonzero(x, size=9), "bools", **exact)
    case("flatnonzero", lambda x: jnp.flatnonzero(x, size=26, fill_value=7), "bools", **exact)
    case("bincount", lambda x: jnp.bincount(x.ravel(), length=5), "equals", **exact)
    case("bincount(weights)", lambda x, w: jnp.bincount(x.ravel(), w.ravel(), length=5), "equals", "x", ulp=2)
    for name in ["sum", "prod", "max", "min"]:
        case("segment_" + name, lambda x, s, f=getattr(jax.ops, "segment_" + name): f(x, s, num_segments=4), "x",
             "segments", diff=name == "sum", ulp=2)


def windows(case):
    conv = lax.conv_general_dilated
    two, one = ("NHWC", "HWIO", "NHWC"), ("NWC", "WIO", "NWC")
    name = "nn::conv_general_dilated"
    case(name, lambda x, k: conv(x, k, (2, 1), "SAME"), "images", "kernels")
    case(name + "(dilated)", lambda x, k: conv(x, k, (1, 1), [(2, 1), (0, 1)], rhs_dilation=(2, 1)), "images", "kernels")
    case(name + "(transposed)", lambda x, k: conv(x, k, (1, 1), [(0, 0), (0, 0)], lhs_dilation=(2, 2)), "images", "kernels")
    case(name + "(groups)", lambda x, k: conv(x, k, (1, 2), "VALID", feature_group_count=2), "images", "grouped")
    case("nn::conv", lambda x, k: conv(x, k, (1, 1), "SAME", dimension_numbers=two), "last", "kernels_last")
    case("nn::conv(one dimension)", lambda x, k: conv(x, k, (2,), "SAME", dimension_numbers=one), "line", "kernels_line")
    window, strides = (1, 2, 2, 1), (1, 1, 2, 1)
    case("nn::max_pool", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, window, strides, "VALID"), "distinct", ulp=0)
    case("nn::min_pool", lambda x: -lax.reduce_window(-x, -jnp.inf, lax.max, window, strides, "SAME"), "distinct", ulp=0)
    case("nn::avg_pool", lambda x: lax.reduce_window(x, 0.0, lax.add, window, strides, "VALID") / 4, "last", ulp=2)
    case("nn::embedding", lambda table, i: jnp.take(table, i, axis=0), "x", "places", ulp=0)


def cases(case):
    creation(case)
    moving(case)
    indexing(case)
    order(case)
    windows(case)
