// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/base/dtype.h"

/// Elements in memory: their dtype and their order.
namespace lockstep::checkpoint {

/// Whether elements of one dtype can become those of another: floating dtypes can, rounded to the nearest.
bool can_convert(DType from, DType to);

/// Converts dense elements. The memory may not overlap.
void convert(const std::byte* from, DType from_dtype, std::byte* to, DType to_dtype, std::size_t count);

/// Copies elements of 1, 2, 4, 8 or 16 bytes from any strides to any strides, counted in elements.
void copy_elements(std::span<const std::int64_t> shape, std::size_t element, const std::byte* from,
                   std::span<const std::int64_t> from_strides, std::byte* to,
                   std::span<const std::int64_t> to_strides);

}  // namespace lockstep::checkpoint
