// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "lockstep/nn/initializers.h"
#include "lockstep/nn/layer.h"

/// For the sources of layers: making and checking their arrays.
namespace lockstep::nn::internal {

/// The layer's array of this name, made by `given`, or by `otherwise` if `given` is none, with key_at(key,
/// name).
Array made(const Initializer& given, const Initializer& otherwise, const random::KeyOperand& key,
           std::string_view name, const Shape& shape, DType dtype);

/// Throws ShapeError if there are no sizes, or one of them is not positive.
void check_sizes(std::string_view layer, std::string_view what, const std::vector<std::int64_t>& sizes);

/// Throws Error if `array` was not made by init.
void check_made(std::string_view layer, const Array& array);
void check_made(std::string_view layer, const std::optional<Array>& array);

/// Throws ShapeError unless x's last dimensions are these.
void check_features(std::string_view layer, const Operand& x, const std::vector<std::int64_t>& sizes);

/// The logical axes of `count` dimensions from `first` on.
PartitionSpec last_axes(const PartitionSpec& axes, std::int64_t first, std::int64_t count);

}  // namespace lockstep::nn::internal
