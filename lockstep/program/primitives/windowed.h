#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/program/program.h"
#include "lockstep/program/sharding_rule.h"

/// Sharding rules of operations whose results are made of the operand's elements under windows: slices, pads,
/// convolutions, pooling.
namespace lockstep::rules {

/// A dimension of a result whose element i is made of what is under a window of `extent` places, from place
/// i * stride on, of the operand's dimension with dilation - 1 places between its elements and `low` before.
struct WindowedDim {
  std::int64_t size;   ///< of the operand
  std::int64_t count;  ///< of the result
  std::int64_t stride = 1, low = 0, dilation = 1, extent = 1;

  /// Whether element i is the operand's element i.
  bool keeps_places() const;

  /// A factor for both dimensions: a split divides their sizes, and no window begins between two elements
  /// elsewhere than the device's first.
  ShardingRule::Factor factor() const;
};

/// What a device needs of the operand's dimension, and the padding around it, negative where it is cut.
struct LocalDim {
  PartWindows windows;
  std::int64_t low, high;
};

/// Of one of `parts` equal parts of the result.
LocalDim part_of_result(const WindowedDim& dim, std::int64_t parts);

/// Each dimension of the first operand with that of the result, by factor d.
ShardingRule windowed(std::span<const Aval> inputs, std::span<const Aval> outputs,
                      const std::vector<WindowedDim>& dims);

/// What a device needs of the operand under such a rule, of which it has x; `fill` stands outside of the
/// dimensions. Sets the padding around it in those that were brought.
Value brought(Value x, const std::vector<WindowedDim>& dims, const PartPlaces& places,
              const std::optional<Value>& fill, std::vector<std::int64_t>& low,
              std::vector<std::int64_t>& high);

}  // namespace lockstep::rules
