// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "lockstep/array/array.h"

namespace lockstep::internal {

/// A concrete array of dense row-major host data on this process's first device, not committed. The data is
/// copied if `owner` is null; otherwise the array may use it in place and holds the owner. In a trace, too,
/// it is concrete, and becomes an input of the traced program.
Array array_from_host(const void* data, DType dtype, const Shape& shape, bool weak_type = false,
                      std::shared_ptr<const void> owner = nullptr);

/// New memory, aligned so that the CPU plugin can use it without a copy.
std::shared_ptr<void> aligned_memory(std::size_t bytes);

}  // namespace lockstep::internal
