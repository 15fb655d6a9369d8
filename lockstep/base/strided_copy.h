// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// For libraries that hold elements: any strides.

namespace lockstep::internal {

/// Whether elements with these strides, counted in elements, are dense and row-major. Strides of dimensions
/// of size 1, and of an array without elements, do not matter.
bool is_row_major(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides);

/// Copies elements of `element` bytes from any strides, counted in elements, to dense row-major memory.
/// `source` is the address of the element of index 0, 0, …. Throws Error unless `element` is 1, 2, 4, 8
/// or 16.
void copy_strided(void* destination, const void* source, std::size_t element,
                  std::span<const std::int64_t> shape, std::span<const std::int64_t> strides);

}  // namespace lockstep::internal
