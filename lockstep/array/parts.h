// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "lockstep/array/array.h"

// For the layers above: arrays as the parts on this process.

namespace lockstep::internal {

/// Dense row-major elements in host memory.
struct HostPart {
  const void* data = nullptr;
  std::shared_ptr<void> owner;  ///< keeps the memory; the array may use it in place
  bool exclusive = false;       ///< nothing else reads the memory, so a computation may change it by donation
};

/// A concrete array; `part` is called once for each range that a device of this process holds.
Array from_parts(const Aval& aval, const Sharding& sharding, bool committed,
                 const std::function<HostPart(const std::vector<IndexRange>&)>& part);

/// An array that only has a shape, a dtype and a sharding.
Array without_elements(const Aval& aval, const Sharding& sharding, bool committed);

/// Another array with the same memory, which is then not reused if x is donated. Throws as concrete(). The
/// second has another type, whose parts on this process's devices are the same, in the same order.
Array sharing(const Array& x);
Array sharing(const Array& x, const Aval& aval, const Sharding& sharding, bool committed);

/// Whether a user determined its placement.
bool is_committed(const Array& x);

}  // namespace lockstep::internal
