#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "lockstep/nn/initializers.h"
#include "lockstep/nn/layer.h"

/// For the sources of layers: how their arrays are made and checked.
namespace lockstep::nn::internal {

/// The layer's array of this name, by the initializer or, where that is none, the default, with
/// key_at(key, name).
Array made(const Initializer& given, const Initializer& otherwise, const Operand& key, std::string_view name,
           const Shape& shape, DType dtype);

/// Throws ShapeError unless all sizes are above 0, and there are some.
void check_sizes(std::string_view layer, std::string_view what, const std::vector<std::int64_t>& sizes);

/// Throws Error for an array that init has not made.
void check_made(std::string_view layer, const Array& array);
void check_made(std::string_view layer, const std::optional<Array>& array);

/// Throws ShapeError unless x's last dimensions are these.
void check_features(std::string_view layer, const Operand& x, const std::vector<std::int64_t>& sizes);

/// Of the logical axes of an array those of `count` dimensions from `first` on.
PartitionSpec last_axes(const PartitionSpec& axes, std::int64_t first, std::int64_t count);

}  // namespace lockstep::nn::internal
