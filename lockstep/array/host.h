// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "lockstep/array/array.h"

namespace lockstep::pjrt {
class Buffer;
}

namespace lockstep::internal {

/// A concrete array of dense row-major host data on this process's first device, not committed. The data is
/// copied if `owner` is null; otherwise the array may use it in place and holds the owner. In a trace, too,
/// it is concrete, and becomes an input of the traced program. With `must_not_copy`, throws Error if the
/// array is not in place.
Array array_from_host(const void* data, DType dtype, const Shape& shape, bool weak_type = false,
                      std::shared_ptr<const void> owner = nullptr, bool must_not_copy = false);

/// Throws Error, with the reason, if the buffer is not the host memory from which it was made.
void check_in_place(std::string_view what, const pjrt::Buffer& buffer, const void* source, Device device);

/// New memory, aligned so that the CPU plugin can use it without a copy.
std::shared_ptr<void> aligned_memory(std::size_t bytes);

}  // namespace lockstep::internal
