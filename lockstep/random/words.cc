// SPDX-License-Identifier: Apache-2.0
#include "lockstep/random/words.h"

#include <algorithm>
#include <cmath>

#include "lockstep/base/fail.h"
#include "lockstep/ops/apply.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/random.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::random {
namespace {

/// Each element's place in row-major order, as two words. It is a sum over the dimensions, and not the
/// reshaped count, so that a device that holds a part of the result makes only that part.
std::pair<Array, Array> places(const Array& key, const Shape& shape) {
  const bool small = num_elements(shape) <= std::int64_t{1} << 32;
  const DType dtype = small ? DType::kU32 : DType::kU64;
  Array place = ir::lax::full(key, ir::Scalar::of(0), dtype, shape);
  std::int64_t stride = 1;
  for (auto d = static_cast<std::int64_t>(shape.size()) - 1; d >= 0; --d) {
    if (shape[static_cast<std::size_t>(d)] > 1) {
      Array along = ir::lax::iota(key, dtype, shape, d);
      place =
          ir::lax::add(place, ir::lax::mul(along, ir::lax::full(key, ir::Scalar::of(stride), dtype, shape)));
    }
    stride *= shape[static_cast<std::size_t>(d)];
  }
  if (small) return {ir::lax::full(key, ir::Scalar::of(0), DType::kU32, shape), place};
  Array high = ir::lax::shift_right_logical(place, ir::lax::full(key, ir::Scalar::of(32), dtype, shape));
  return {ir::lax::convert_element_type(high, DType::kU32),
          ir::lax::convert_element_type(place, DType::kU32)};
}

}  // namespace

void check_key(std::string_view operation, const Operand& key) {
  if (key.type().dtype != DType::kU32) {
    fail<DTypeError>("[random::{}] expected a key, u32[2], got {}{}; make one with random::key(seed)",
                     operation, to_string(key.aval()), ops::at());
  }
  if (key.shape() != Shape{2}) {
    fail<ShapeError>(
        "[random::{}] expected one key, u32[2], got {}{}; take one of several with index(keys, i)", operation,
        to_string(key.aval()), ops::at());
  }
}

void check_floating(std::string_view operation, DType dtype) {
  if (!is_floating(dtype)) {
    fail<DTypeError>("[random::{}] expected a floating dtype, got {}{}", operation, name(dtype), ops::at());
  }
}

void check_shape(std::string_view operation, const Shape& shape) {
  if (std::ranges::any_of(shape, [](std::int64_t size) { return size < 0; })) {
    fail<ShapeError>("[random::{}] expected sizes of 0 or more, got {}{}", operation, to_string(shape),
                     ops::at());
  }
}

Array word(const Array& key, std::int64_t i, const Shape& shape) {
  return ir::lax::broadcast_in_dim(ir::lax::reshape(ir::lax::slice(key, {i}, {i + 1}), {}), shape, {});
}

Words words_at_places(const Array& key, const Shape& shape) {
  auto [high, low] = places(key, shape);
  auto [first, second] = ir::lax::threefry2x32(word(key, 0, shape), word(key, 1, shape), high, low);
  return {first, second};
}

Words child(const Words& keys, std::int64_t i) {
  const Array zero = ir::lax::full_like(keys.first, 0);
  auto [first, second] =
      ir::lax::threefry2x32(keys.first, keys.second, zero, ir::lax::full_like(zero, static_cast<double>(i)));
  return {first, second};
}

Array bits_of(const Words& words, DType dtype) {
  auto [first, second] = words;
  if (dtype != DType::kU64) return ir::lax::convert_element_type(ir::lax::logical_xor(first, second), dtype);
  Array high = ir::lax::convert_element_type(first, dtype),
        low = ir::lax::convert_element_type(second, dtype);
  return ir::lax::logical_or(ir::lax::shift_left(high, ir::lax::full_like(high, 32)), low);
}

Array uniform_of(const Words& words, DType dtype, const Operand& minval, const Operand& maxval) {
  const int kept = finfo(dtype).nmant;
  const DType drawn = kept < 8              ? DType::kU8
                      : size_of(dtype) == 2 ? DType::kU16
                      : size_of(dtype) == 4 ? DType::kU32
                                            : DType::kU64;
  // The highest bits drawn are the significand of a number in [0, 1).
  Array random = bits_of(words, drawn);
  const int drop = static_cast<int>(size_of(drawn)) * 8 - kept;
  random = ir::lax::convert_element_type(
      ir::lax::shift_right_logical(random, ir::lax::full_like(random, drop)), dtype);
  random = ir::lax::mul(random, ir::lax::full_like(random, std::ldexp(1.0, -kept)));
  auto bound = [&](const Operand& value) {
    return ops::conform(value.as_array({dtype, false}), {dtype, false}, words.first.shape());
  };
  Array low = bound(minval), high = bound(maxval);
  return ir::lax::max(low, ir::lax::add(ir::lax::mul(random, ir::lax::sub(high, low)), low));
}

double above_minus_one(DType dtype) { return -1 + std::ldexp(1.0, -finfo(dtype).nmant - 1); }

}  // namespace lockstep::random
