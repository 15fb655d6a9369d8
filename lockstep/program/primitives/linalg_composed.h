#pragma once

#include "lockstep/program/lowering.h"

/// Decompositions without LAPACK, composed of other primitives.
namespace lockstep::composed {

/// Eigenvectors and eigenvalues of symmetric matrices, closer: a program of the matrices, v and w.
Program refined_eigh(const Aval& x);

/// A program of matrices that gives u, s and vh, or only s, as svd_p does.
Program svd(const Aval& x, bool vectors);

/// The results of lu_p, of matrices of this name.
Lowering::Names lu(Lowering& out, const std::string& matrices, const Aval& x);

}  // namespace lockstep::composed
