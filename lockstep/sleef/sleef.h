// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/base/dtype.h"
#include "lockstep/collectives/ffi_call.h"

/// Functions of single elements on CPUs by SLEEF (Shibata and Petrogalli, "SLEEF: A portable vectorized
/// library of C standard mathematical functions", 2020), loaded when a program first has one. For most of
/// them XLA calls the C library for each element.
namespace lockstep::sleef {

/// The target of the custom calls:
///   attributes  function, text: see computes()
///   operands    one or two arrays of f32 or f64 and of one shape
///   results     one array of that dtype and shape
/// It computes on XLA's threads; an element's result does not depend on its place.
inline constexpr std::string_view kSleefTarget = "lockstep_sleef";

/// Whether SLEEF is installed here, and the processor has AVX2 or AVX-512; and its functions, or why not.
bool is_available();
std::string description();

/// Whether the function is computed for this dtype, f32 or f64: sin, cos, tan, asin, acos, atan, sinh, log,
/// cbrt, erf, and of two operands atan2, pow. They are within one unit in the last place for all
/// numbers; subnormal results may be 0.
bool computes(std::string_view function, DType dtype);

/// The dtype in which numbers of a floating dtype are computed.
inline DType computed_in(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

/// Whether it is computed, and faster than by XLA's code (benchmarks/functions_on_cpus.cc).
bool is_faster(std::string_view function, DType dtype);

using collectives::ForEach;

/// The function of `count` elements; for which computes() must be true.
void compute(std::string_view function, DType dtype, std::span<const void* const> operands, void* result,
             std::int64_t count, const ForEach& for_each);

/// The handler, an `XLA_FFI_Handler*`, for pjrt::Plugin::register_ffi_handler.
void* sleef_handler();

}  // namespace lockstep::sleef
