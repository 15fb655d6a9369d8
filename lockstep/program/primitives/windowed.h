#pragma once

#include <cstdint>
#include <utility>

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

/// Of devices whose windows begin `step` places behind each other, the first one's at the first of the padded
/// operand, and span so many.
LocalDim under_window(std::int64_t low, std::int64_t dilation, std::int64_t step, std::int64_t span);

/// The elements of x at these places of a dimension, one for each; of places that x does not have, any. And
/// whether x has them, in the shape of what is taken.
std::pair<Value, Value> taken_along(const Value& x, std::size_t dimension, const Value& places);

}  // namespace lockstep::rules
