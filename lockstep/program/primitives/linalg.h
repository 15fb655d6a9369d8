// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/primitives/apply.h"

namespace lockstep::ir {

/// Decompositions of matrices, which are the last two dimensions of f32 or f64 operands; the dimensions
/// before are batch dimensions. On CPUs LAPACK computes them if it is installed; otherwise XLA expands each
/// into operations of its own.
const Primitive& cholesky_p();
const Primitive& triangular_solve_p();
const Primitive& qr_p();
const Primitive& eigh_p();

struct TriangularSolveParams {
  static constexpr std::array<std::string_view, 4> kFields = {"left_side", "lower", "transpose_a",
                                                              "unit_diagonal"};
  bool left_side, lower, transpose_a, unit_diagonal;
};

namespace lax {

/// The lower triangular l with x = l lᵀ, for a positive definite x, of which only the lower triangle is read;
/// NaN if x is not positive definite.
template <Operand V>
V cholesky(const V& x) {
  return apply1<V>(cholesky_p(), {x});
}

/// y with op(a) y = b, or y op(a) = b unless left_side; a is triangular, and op may transpose it.
template <Operand V>
V triangular_solve(const V& a, const V& b, TriangularSolveParams params) {
  return apply1<V>(triangular_solve_p(), OpParams::of(params), {a, b});
}

/// x = q r, by Householder reflections: q has min(m, n) orthonormal columns, and r is upper triangular. The
/// third result is the determinant of the product of the reflections, 1 or -1 for each matrix.
template <Operand V>
std::vector<V> qr(const V& x) {
  return apply_primitive(qr_p(), OpParams(), std::span<const V>(&x, 1));
}

/// x v = v diag(w) for a symmetric x: returns {v, w}, with w in ascending order.
template <Operand V>
std::vector<V> eigh(const V& x) {
  return apply_primitive(eigh_p(), OpParams(), std::span<const V>(&x, 1));
}

}  // namespace lax
}  // namespace lockstep::ir
