// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/base/dtype.h"
#include "lockstep/collectives/ffi_call.h"

/// Sorting on CPUs by Highway's vectorized quicksort (Blacher, Giesen, Sanders and Wassenberg, "Vectorized
/// and performance-portable quicksort", 2022): XLA's own code calls the comparison of two elements, and takes
/// thirty times as long for 2^18 of them.
namespace lockstep::sorting {

/// The target of the custom calls:
///   attributes  dimension, num_keys, s64; descending, s64: 0 or 1
///   operands    arrays of one shape, row-major
///   results     the operands, sorted along the dimension by the first num_keys of them, stable; if the
///               dimension of the results is smaller, the first elements. NaN is the largest number, and 0
///               and -0 are equal
/// It computes on XLA's threads. The result does not depend on their number.
inline constexpr std::string_view kSortTarget = "lockstep_sort";

/// Whether elements can be sorted by keys of these dtypes: of at most 64 bits together; `size` is that of the
/// dimension.
bool sorts(std::span<const DType> keys, std::int64_t size);

using collectives::ForEach;

/// Operands and results as the custom call has them, for which `sorts` is true.
struct Sort {
  std::vector<std::int64_t> shape;  ///< of the operands
  std::int64_t dimension = 0, num_keys = 1;
  std::int64_t count = 0;  ///< the results' size of the dimension
  bool descending = false;
  std::vector<DType> dtypes;
  std::vector<const void*> operands;
  std::vector<void*> results;
};
void sort(const Sort& sort, const ForEach& for_each);

/// The handler, an `XLA_FFI_Handler*`, for pjrt::Plugin::register_ffi_handler.
void* sort_handler();

}  // namespace lockstep::sorting
