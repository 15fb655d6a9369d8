#pragma once

#include <array>
#include <cstdint>
#include <source_location>

#include "lockstep/ops/operand.h"
#include "lockstep/ops/shape.h"

/// Random numbers, as in jax.random: pure functions of a key, with the very bits of JAX's default generator
/// (threefry2x32, partitionable). The same key gives the same numbers, on any number of devices and
/// processes; draw from keys that were split. A key is a u32[2]; another shape or dtype is a ShapeError or a
/// DTypeError.
namespace lockstep::random {

using SourceLocation = std::source_location;

/// The key of a seed: its high and its low word.
Array key(std::uint64_t seed, SourceLocation where = SourceLocation::current());

/// New keys, which are independent of each other and of what the key itself gives: u32[count,2], of which
/// index(keys, i) is one; or each of `count`: `auto [k1, k2] = split<2>(key)`.
Array split(const Operand& key, std::int64_t count = 2);
template <std::size_t count>
std::array<Array, count> split(const Operand& key);

/// A new key from a key and a whole number or scalar array of them.
Array fold_in(const Operand& key, const Operand& data);

/// Uniformly distributed bits, of u8, u16, u32 or u64.
Array bits(const Operand& key, const Shape& shape, DType dtype = DType::kU32);

/// Uniform in [minval, maxval), of a floating dtype.
Array uniform(const Operand& key, const Shape& shape = {}, DType dtype = DType::kF32,
              const Operand& minval = 0.0, const Operand& maxval = 1.0);

/// Whole numbers in [minval, maxval), nearly uniform; minval where the range is empty. The bounds are C++
/// numbers, or arrays that broadcast to the shape.
Array randint(const Operand& key, const Shape& shape, const Operand& minval, const Operand& maxval,
              DType dtype = DType::kI32);

/// true with probability p.
Array bernoulli(const Operand& key, const Operand& p = 0.5, const Shape& shape = {});

/// Standard normal, of f32, f16 or bf16. They agree with JAX's to a few units in the last place.
Array normal(const Operand& key, const Shape& shape = {}, DType dtype = DType::kF32);

/// The same, of only what lies between the bounds, lower < upper (Error otherwise).
Array truncated_normal(const Operand& key, double lower, double upper, const Shape& shape = {},
                       DType dtype = DType::kF32);

/// The Gumbel distribution, of a floating dtype.
Array gumbel(const Operand& key, const Shape& shape = {}, DType dtype = DType::kF32);

/// Indices along the last dimension, drawn with the probabilities softmax(logits): i32, of the logits' other
/// dimensions.
Array categorical(const Operand& key, const Operand& logits);

template <std::size_t count>
std::array<Array, count> split(const Operand& key) {
  const Array keys = random::split(key, static_cast<std::int64_t>(count));
  std::array<Array, count> each;
  for (std::size_t i = 0; i < count; ++i)
    each[i] = index(Operand(keys, key.where()), static_cast<std::int64_t>(i));
  return each;
}

}  // namespace lockstep::random
