#pragma once

#include <string>
#include <string_view>

/// LAPACK, by which decompositions of matrices are computed on CPUs: that of OpenBLAS, loaded when a program
/// is first compiled that calls it, so that programs without decompositions have none of its memory and
/// threads.
namespace lockstep::lapack {

/// The target of the custom calls:
///   attribute  routine, string: "cholesky", "triangular_solve", "qr", "lu", "eigh", "svd", "eig", "schur" or
///              "sqrtm"; further ones of s64 as the routine needs them (routines.cc)
///   operands   matrices, in the last two dimensions, of f32 or f64, row by row; those before count them
///   results    the routine's (lockstep/program/primitives/linalg.h)
inline constexpr std::string_view kLapackTarget = "lockstep_lapack";

/// The handler, an `XLA_FFI_Handler*`, for pjrt::Plugin::register_ffi_handler. It fails the execution where
/// OpenBLAS cannot be loaded. Where a routine does not come to an end, the results of that matrix are NaN.
void* lapack_handler();

/// Whether OpenBLAS is installed. Loads it, once.
bool is_available();

/// "OpenBLAS 0.3.21 ..., SkylakeX, 2 threads", or why it cannot be loaded.
std::string description();

/// How many threads a call may take at the most, for processes that share a host; to be said before it is
/// loaded. OPENBLAS_NUM_THREADS, where it is set, wins. Without either: one for each CPU of the process.
void limit_threads(int threads);

}  // namespace lockstep::lapack
