// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/program/lowering.h"

/// Decompositions by cuSOLVER. Names and avals are of matrices, with batch dimensions before them.
namespace lockstep::ir::on_gpus {

/// Whether cuSOLVER decomposes such matrices in this program.
bool is_used(const Lowering& out, const Aval& x);

/// The results of lu_p, eigh_p and svd_p. Where cuSOLVER does not converge they are NaN.
Lowering::Names lu(Lowering& out, const std::string& x, const Aval& aval);
Lowering::Names eigh(Lowering& out, const std::string& x, const Aval& aval);
Lowering::Names svd(Lowering& out, const std::string& x, const Aval& aval, bool vectors);

/// The results of geqrf_p and householder_product_p.
Lowering::Names geqrf(Lowering& out, const std::string& x, const Aval& aval);
std::string householder_product(Lowering& out, const std::string& x, const Aval& aval,
                                const std::string& taus, const Aval& taus_aval);

}  // namespace lockstep::ir::on_gpus
