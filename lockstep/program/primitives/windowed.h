// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/program/program.h"
#include "lockstep/program/sharding_rule.h"

/// Sharding rules of operations whose results are computed from windows of the operand's elements: slices,
/// pads, convolutions, pooling.
namespace lockstep::ir::rules {

/// A dimension of a result. Its element i is computed from a window of `extent` positions, beginning at
/// position i * stride, of the operand's dimension, which has dilation - 1 positions between its elements and
/// `low` before them.
struct WindowedDim {
  std::int64_t size;   ///< of the operand
  std::int64_t count;  ///< of the result
  std::int64_t stride = 1, low = 0, dilation = 1, extent = 1;

  /// Whether element i of the result is computed from the operand's element i only.
  bool keeps_places() const;

  /// A factor for both dimensions. A split must divide both sizes, and the windows of all devices must begin
  /// at the same place relative to the dilated elements.
  ShardingRule::Factor factor() const;
};

/// The elements of the operand's dimension that a device needs, and the padding around them, which is
/// negative if they are cut.
struct LocalDim {
  PartWindows windows;
  std::int64_t low, high;
};

/// For one of `parts` equal parts of the result.
LocalDim part_of_result(const WindowedDim& dim, std::int64_t parts);

/// A rule in which each dimension of the first operand and of the result has factor d.
ShardingRule windowed(std::span<const Aval> inputs, std::span<const Aval> outputs,
                      const std::vector<WindowedDim>& dims);

/// The elements of the operand that a device needs under such a rule; it has x. Positions outside of the
/// dimensions hold `fill`. Sets the padding around x in the dimensions whose elements were fetched.
Value brought(Value x, const std::vector<WindowedDim>& dims, const PartPlaces& places,
              const std::optional<Value>& fill, std::vector<std::int64_t>& low,
              std::vector<std::int64_t>& high);

}  // namespace lockstep::ir::rules
