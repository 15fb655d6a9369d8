// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "lockstep/ops/operand.h"
#include "lockstep/ops/shape.h"

/// For the sources of this folder: the random words from which numbers are made. Call these within a trace,
/// or in the function of run_operation.
namespace lockstep::random {

/// Argument checks; the errors name random::`operation`. check_key throws ShapeError or DTypeError unless the
/// key is one u32[2]. The others throw DTypeError unless the dtype is floating, and ShapeError for a negative
/// size.
void check_key(std::string_view operation, const Operand& key);
void check_floating(std::string_view operation, DType dtype);
void check_shape(std::string_view operation, const Shape& shape);

/// Word i of the key, broadcast to the shape.
Array word(const Array& key, std::int64_t i, const Shape& shape);

/// Two words of 32 random bits for each element, as u32 arrays of one shape. They become numbers, or keys,
/// one for each element.
struct Words {
  Array first, second;
};

/// The words at each element's position in row-major order: the keys of split(key, number of elements).
Words words_at_places(const Array& key, const Shape& shape);

/// For each element's key, key i of those that split would return.
Words child(const Words& keys, std::int64_t i);

/// The numbers of `bits` and `uniform`, made from these words. Use words_at_places for a whole shape from one
/// key, and child(keys, 0) for one number from each element's key.
Array bits_of(const Words& words, DType dtype);
Array uniform_of(const Words& words, DType dtype, const Operand& minval = 0.0, const Operand& maxval = 1.0);

/// The smallest number above -1, the lower bound of `normal`'s uniform numbers.
double above_minus_one(DType dtype);

}  // namespace lockstep::random
