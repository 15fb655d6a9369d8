// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/array/array.h"

/// Reverse derivatives under pmap. As in JAX's pmap, each device differentiates its own copy of everything,
/// and the result of a psum counts as a copy for each device, too. Under shard_map, a value that is the same
/// on all devices is one value, and its gradient is the sum over the devices.
namespace lockstep::internal {

/// The axis of the pmap whose function this thread is tracing; none outside of pmap.
class PmapAxis {
 public:
  static const std::vector<std::string>& current();

  /// Sets it for its lifetime.
  explicit PmapAxis(std::string axis);
  ~PmapAxis();
  PmapAxis(const PmapAxis&) = delete;
  PmapAxis& operator=(const PmapAxis&) = delete;

 private:
  std::vector<std::string> saved_;
};

/// Under pmap: each device's own copy of x. Otherwise x.
Array own_copy(const Array& x);

/// The cotangent of a value of this type, for each device's cotangent of its own copy.
Array cotangent_of_copies(const Array& cotangent, const Aval& value);

}  // namespace lockstep::internal
