// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

/// cuSOLVER, which computes decompositions of matrices on NVIDIA GPUs. It comes with CUDA, and is loaded when
/// the first program that calls it is compiled.
namespace lockstep::cuda {

/// The target of the custom calls. Attributes: routine, a string; rows and columns, s64, of each matrix as
/// cuSOLVER sees it. Operands: matrices of f32 or f64 in column-major order, in the last two dimensions; the
/// others are batch dimensions. By routine:
///   - getrf: x. Results: x's factors in its place; pivots, s32, from 0; the permutation of rows, s32.
///   - geqrf: x. Results: reflections and triangle in its place; taus.
///   - orgqr: reflections, taus. Result: the columns of their product in the reflections' place.
///   - syevd: x, whose lower triangle is read. Results: eigenvectors in its place; eigenvalues; info.
///   - gesvdj: x. Results: nothing in its place; singular values, u, v; info.
///   - gesvdjBatched: the same for matrices of at most 32 rows and columns, with all columns of u and v.
///   - gesvd: x, of at least as many rows as columns. Results: nothing in its place; singular values, u, vᵀ;
///     info.
/// Where the library has a routine for several matrices, one call of it is made for all: syevBatched, and of
/// cuBLAS getrfBatched and geqrfBatched. info, s32, is not 0 for a matrix for which the routine did not
/// converge; its results are then undefined.
inline constexpr std::string_view kSolverTarget = "lockstep_cusolver";

/// The handler, an `XLA_FFI_Handler*`, for pjrt::Plugin::register_ffi_handler.
void* solver_handler();

/// Whether cuSOLVER is installed. Loads it, once.
bool has_solver();

/// "libcusolver.so.12", or why it cannot be loaded.
std::string describe_solver();

}  // namespace lockstep::cuda
