// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <source_location>

#include "lockstep/ops/shape.h"
#include "lockstep/random/key.h"

/// Random numbers, as in jax.random: pure functions of a key, with exactly the bits of JAX's default
/// generator (threefry2x32, partitionable). The same key gives the same numbers on any number of devices and
/// processes; split a key before drawing more than once. The words of a key, u32[2], are taken for it, too;
/// another shape is a ShapeError, another dtype a DTypeError.
namespace lockstep::random {

using SourceLocation = std::source_location;

/// The key for a seed: its high and its low 32 bits.
Key key(std::uint64_t seed, SourceLocation where = SourceLocation::current());

/// New keys, independent of each other and of the numbers drawn from the key itself: `count` keys, of which
/// keys[i] is one; or separate keys: `auto [k1, k2] = split<2>(key)`.
Key split(const KeyOperand& key, std::int64_t count = 2);
template <std::size_t count>
std::array<Key, count> split(const KeyOperand& key);

/// A new key from a key and an integer or an integer scalar array.
Key fold_in(const KeyOperand& key, const Operand& data);

/// Uniformly distributed bits, of dtype u8, u16, u32 or u64.
Array bits(const KeyOperand& key, const Shape& shape, DType dtype = DType::kU32);

/// Uniform in [minval, maxval). Throws DTypeError unless the dtype is floating.
Array uniform(const KeyOperand& key, const Shape& shape = {}, DType dtype = DType::kF32,
              const Operand& minval = 0.0, const Operand& maxval = 1.0);

/// Integers in [minval, maxval), almost uniform; minval if the range is empty. The bounds are C++ numbers, or
/// arrays that broadcast to the shape.
Array randint(const KeyOperand& key, const Shape& shape, const Operand& minval, const Operand& maxval,
              DType dtype = DType::kI32);

/// true with probability p.
Array bernoulli(const KeyOperand& key, const Operand& p = 0.5, const Shape& shape = {});

/// Standard normal, for f32, f16 or bf16. The numbers agree with JAX's within a few units in the last place.
Array normal(const KeyOperand& key, const Shape& shape = {}, DType dtype = DType::kF32);

/// Standard normal, restricted to [lower, upper]. Throws Error unless lower < upper.
Array truncated_normal(const KeyOperand& key, double lower, double upper, const Shape& shape = {},
                       DType dtype = DType::kF32);

/// The Gumbel distribution. Throws DTypeError unless the dtype is floating.
Array gumbel(const KeyOperand& key, const Shape& shape = {}, DType dtype = DType::kF32);

/// Indices along the last dimension of the logits, drawn with probabilities softmax(logits): i32, with the
/// shape of the logits' other dimensions.
Array categorical(const KeyOperand& key, const Operand& logits);

template <std::size_t count>
std::array<Key, count> split(const KeyOperand& key) {
  const Key keys = random::split(key, static_cast<std::int64_t>(count));
  std::array<Key, count> each;
  for (std::size_t i = 0; i < count; ++i) each[i] = index(keys, static_cast<std::int64_t>(i), key.where());
  return each;
}

}  // namespace lockstep::random
