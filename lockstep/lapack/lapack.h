// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

/// LAPACK, which computes decompositions of matrices on CPUs. It is part of OpenBLAS, which is loaded when
/// the first program that calls it is compiled, so that programs without decompositions do not get its memory
/// and threads.
namespace lockstep::lapack {

/// The target of the custom calls:
///   attribute  routine, string: "cholesky", "triangular_solve", "qr", "geqrf", "householder_product", "lu",
///              "eigh", "svd", "eig", "schur", "complex_schur" or "sqrtm"; further ones of s64 as the routine
///              needs them (routines.cc)
///   operands   matrices of f32 or f64, row-major, in the last two dimensions; the others are batch
///   dimensions results    the routine's (lockstep/program/primitives/linalg.h)
inline constexpr std::string_view kLapackTarget = "lockstep_lapack";

/// The handler, an `XLA_FFI_Handler*`, for pjrt::Plugin::register_ffi_handler. The execution fails if
/// OpenBLAS cannot be loaded. If a routine does not converge, the results for that matrix are NaN.
void* lapack_handler();

/// Whether OpenBLAS is installed. Loads it, once.
bool is_available();

/// "OpenBLAS 0.3.21 ..., SkylakeX, 2 threads", or why it cannot be loaded.
std::string description();

/// Sets the maximal number of threads of a call, for processes that share a host; call it before OpenBLAS is
/// loaded. OPENBLAS_NUM_THREADS overrides it. Without either: one for each CPU of the process.
void limit_threads(int threads);

}  // namespace lockstep::lapack
