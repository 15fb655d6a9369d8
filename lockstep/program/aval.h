// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/dtype.h"

namespace lockstep {

using Shape = std::vector<std::int64_t>;

/// "[4,8]".
std::string to_string(const Shape& shape);

/// The product of the sizes: 1 for a scalar.
std::int64_t num_elements(const Shape& shape);

/// The type of a value: its shape and dtype, and what else is known before it is computed.
struct Aval {
  DType dtype = DType::kF32;
  Shape shape;

  /// Set for values that came from a C++ number: in a promotion the other operand's dtype wins.
  bool weak_type = false;

  /// Inside shard_map and pmap, the mesh axes over which devices hold different values; sorted.
  std::vector<std::string> varying;

  std::int64_t rank() const { return static_cast<std::int64_t>(shape.size()); }
  std::int64_t num_elements() const { return lockstep::num_elements(shape); }
  std::int64_t bytes() const { return num_elements() * static_cast<std::int64_t>(size_of(dtype)); }

  bool operator==(const Aval&) const = default;
};

/// "f32[4,8]"; a weak type ends in "*", and varying axes follow in braces: "f32[4]{i}".
std::string to_string(const Aval& aval);

}  // namespace lockstep
