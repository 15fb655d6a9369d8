#pragma once

#include <cstdint>
#include <string_view>

#include "lockstep/ops/operand.h"
#include "lockstep/ops/shape.h"

/// For the sources of this folder: what draws are made of. Within a trace, or in the function of
/// run_operation.
namespace lockstep::random {

/// Throw, naming random::`operation`: ShapeError or DTypeError for what is not one key, u32[2]; DTypeError
/// for a dtype that is not floating; ShapeError for a size below 0.
void check_key(std::string_view operation, const Operand& key);
void check_floating(std::string_view operation, DType dtype);
void check_shape(std::string_view operation, const Shape& shape);

/// Word i of the key, in every element.
Array word(const Array& key, std::int64_t i, const Shape& shape);

/// Two words of 32 random bits in each element: u32 arrays of one shape. They are what numbers are made of,
/// or keys, one for each element.
struct Words {
  Array first, second;
};

/// The words at each element's place in row-major order: the keys of split(key, number of elements).
Words words_at_places(const Array& key, const Shape& shape);

/// Of each element's key, key i of those that split gives.
Words child(const Words& keys, std::int64_t i);

/// As `bits` and `uniform`, of these words. words_at_places gives those of a key for a whole shape,
/// child(keys, 0) those of each element's key for one number.
Array bits_of(const Words& words, DType dtype);
Array uniform_of(const Words& words, DType dtype, const Operand& minval = 0.0, const Operand& maxval = 1.0);

/// The number just above -1, from which on `normal` draws uniformly.
double above_minus_one(DType dtype);

}  // namespace lockstep::random
