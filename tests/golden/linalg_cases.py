# SPDX-License-Identifier: Apache-2.0
"""Cases of decompositions by LAPACK and of functions made of them. generate.py calls `cases`."""

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np

# Its own, so that more cases here leave the other inputs as they are.
rng = np.random.default_rng(17)


def grid(shape):
    return (rng.integers(-64, 64, shape) / 64).astype(np.float32)


def inputs():
    rank_3 = grid((4, 3)) @ grid((3, 4))
    return {
        "matrices": (grid((2, 4, 4)) + 2 * np.diag([1, -1, 2, -2])).astype(np.float32),
        "tall_matrices": grid((2, 4, 3)),
        "wide_matrices": grid((2, 3, 4)),
        "right_sides": grid((2, 4, 2)),
        "vector_4": grid((4,)),
        "rank_4": (grid((4, 4)) + 3 * np.eye(4)).astype(np.float32),
        "rank_3": rank_3.astype(np.float32),
    }


def cases(case):
    for name in ["matrices", "tall_matrices", "wide_matrices"]:
        case(f"linalg::lu({name})", lambda x: jax.vmap(jsl.lu)(x), name)
    case("linalg::lu_factor", lambda x: jsl.lu_factor(x), "matrices", diff=False)
    case("linalg::lu_solve", lambda a, b: jsl.lu_solve(jsl.lu_factor(a), b), "matrices", "right_sides")
    case("linalg::lu_solve(trans=1)", lambda a, b: jsl.lu_solve(jsl.lu_factor(a), b, trans=1), "rank_4", "vector_4")
    case("linalg::solve_triangular", lambda a, b: jsl.solve_triangular(a, b), "rank_4", "vector_4")
    case("linalg::solve_triangular(lower, trans)",
         lambda a, b: jax.vmap(lambda a, b: jsl.solve_triangular(a, b, trans=1, lower=True))(a, b), "matrices", "right_sides")
    case("linalg::det(larger)", jnp.linalg.det, "matrices")
    case("linalg::det(singular)", jnp.linalg.det, "rank_3")
    case("linalg::slogdet(larger)", lambda x: tuple(jnp.linalg.slogdet(x)), "matrices")
    case("linalg::eigvals(abs)", lambda x: jnp.abs(jnp.linalg.eigvals(x)), "matrices")
    case("linalg::eig(abs)", lambda x: tuple(jnp.abs(p) for p in jnp.linalg.eig(x)), "matrices", diff=False)
    case("linalg::schur(abs)", lambda x: tuple(jnp.abs(p) for p in jsl.schur(x)), "rank_4", diff=False)
    case("linalg::schur(complex, abs)", lambda x: tuple(jnp.abs(p) for p in jsl.schur(x, output="complex")), "rank_4",
         diff=False)
    case("linalg::sqrtm(real and imag)", lambda x: (lambda y: (y.real, y.imag))(jsl.sqrtm(x)), "rank_4", diff=False)
    case("linalg::expm", jsl.expm, "matrices")
    case("linalg::expm(large)", lambda x: jsl.expm(8 * x), "symmetric")
    case("linalg::lstsq", lambda a, b: (lambda r: (r[0], r[1], r[3]))(jnp.linalg.lstsq(a, b)), "matrix", "vector_4")
    case("linalg::lstsq(rank)", lambda a, b: jnp.linalg.lstsq(a, b)[2].astype(jnp.int32), "rank_3", "vector_4",
         diff=False, exact=True)
    case("linalg::pinv(rank 3)", jnp.linalg.pinv, "rank_3", diff=False)
    case("linalg::pinv(batch)", jnp.linalg.pinv, "wide_matrices")
    case("linalg::svd(batch)", lambda x: tuple(p**2 for p in jnp.linalg.svd(x, full_matrices=False)), "tall_matrices")
    case("linalg::svd(wide)", lambda x: tuple(p**2 for p in jnp.linalg.svd(x, full_matrices=False)), "wide_matrices")
