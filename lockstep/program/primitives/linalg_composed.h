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

}  // namespace lockstep::ir::composed
