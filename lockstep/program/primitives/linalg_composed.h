// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/lowering.h"

/// Decompositions without LAPACK, composed of other primitives.
namespace lockstep::ir::composed {

/// A program that refines eigenvectors and eigenvalues of symmetric matrices; its inputs are the matrices, v
/// and w.
Program refined_eigh(const Aval& x);

/// A program from matrices to u, s and vh, or only s, as in svd_p.
Program svd(const Aval& x, bool vectors);

/// The results of lu_p for the matrices with this name.
Lowering::Names lu(Lowering& out, const std::string& matrices, const Aval& x);

/// The results of geqrf_p and householder_product_p, by cuSOLVER or by XLA's expansions.
Lowering::Names geqrf(Lowering& out, const std::string& matrices, const Aval& x);
std::string householder_product(Lowering& out, const std::string& reflections, const Aval& x,
                                const std::string& taus, const Aval& taus_aval);

}  // namespace lockstep::ir::composed
