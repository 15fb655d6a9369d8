#pragma once

#include <memory>

#include "lockstep/array/array.h"

namespace lockstep::internal {

/// A concrete array of dense row-major host data, copied, on this process's first device, not committed.
/// In a trace too it is concrete, and becomes an input of the traced program.
Array array_from_host(const void* data, DType dtype, const Shape& shape, bool weak_type = false);

}  // namespace lockstep::internal
