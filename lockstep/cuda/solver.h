// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

/// cuSOLVER, which computes decompositions of matrices on NVIDIA GPUs. It comes with CUDA, and is loaded when
/// the first program that calls it is compiled.
namespace lockstep::cuda {

/// The target of the custom calls:
///   attributes  routine, string; rows, columns, s64: of each matrix as cuSOLVER sees it
///   operands    matrices of f32 or f64 in column-major order, in the last two dimensions; the others are
///   batch
///               dimensions
/// and by routine, where a result in the place of operand 0 has its memory:
///   getrf   x; results x's factors in its place, pivots s32 (from 0), the permutation of rows s32
///   geqrf   x; results reflections and triangle in its place, taus
///   orgqr   reflections, taus; results their product's columns in their place
///   syevd   (of several matrices syevBatched, if cuSOLVER has it) x, whose lower triangle is read; results
///   eigenvectors in its place, eigenvalues, info s32 gesvdj  x; results nothing in its place, singular
///   values, u, v, info s32 gesvd   x of at least as many rows as columns; results nothing in its place,
///   singular values, u, vᵀ, info s32
/// info is not 0 for a matrix for which the routine did not converge; its results are then undefined.
inline constexpr std::string_view kSolverTarget = "lockstep_cusolver";

/// The handler, an `XLA_FFI_Handler*`, for pjrt::Plugin::register_ffi_handler.
void* solver_handler();

/// Whether cuSOLVER is installed. Loads it, once.
bool has_solver();

/// "libcusolver.so.12", or why it cannot be loaded.
std::string describe_solver();

}  // namespace lockstep::cuda
