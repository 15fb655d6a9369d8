// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/sharding/sharding.h"

namespace lockstep::internal {

/// Calls run(whole, part, bytes) for each contiguous range of memory that a dense part of a dense row-major
/// array and the array have in common, with the range's offsets in both, in bytes.
template <class Run>
void for_each_run(const Shape& shape, const std::vector<IndexRange>& part, std::size_t element,
                  const Run& run, std::size_t dimension = 0, std::size_t whole_offset = 0,
                  std::size_t part_offset = 0) {
  if (dimension == shape.size()) return run(whole_offset, part_offset, element);
  std::size_t whole_stride = element, part_stride = element;
  bool dense = true;  // whether all dimensions after this one are whole
  for (std::size_t d = dimension + 1; d < shape.size(); ++d) {
    whole_stride *= static_cast<std::size_t>(shape[d]);
    part_stride *= static_cast<std::size_t>(part[d].limit - part[d].start);
    dense = dense && part[d].limit - part[d].start == shape[d];
  }
  const auto start = static_cast<std::size_t>(part[dimension].start);
  const auto count = static_cast<std::size_t>(part[dimension].limit - part[dimension].start);
  whole_offset += start * whole_stride;
  if (dense) return run(whole_offset, part_offset, count * part_stride);
  for (std::size_t i = 0; i < count; ++i) {
    for_each_run(shape, part, element, run, dimension + 1, whole_offset + i * whole_stride,
                 part_offset + i * part_stride);
  }
}

}  // namespace lockstep::internal
