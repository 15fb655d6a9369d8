#pragma once

#include <array>
#include <cstdint>
#include <source_location>

#include "lockstep/ops/operand.h"
#include "lockstep/ops/shape.h"

/// Random numbers, as in jax.random: pure functions of a key, with exactly the bits of JAX's default
/// generator (threefry2x32, partitionable). The same key gives the same numbers on any number of devices and
/// processes; split a key before drawing more than once. A key is a u32[2]; another shape is a ShapeError,
/// another dtype a DTypeError.
namespace lockstep::random {

using SourceLocation = std::source_location;

/// The key for a seed: its high and its low 32 bits.
Array key(std::uint64_t seed, SourceLocation where = SourceLocation::current());

/// New keys, independent of each other and of the numbers drawn from the key itself: a u32[count,2], whose
/// keys are index(keys, i); or `count` separate keys: `auto [k1, k2] = split<2>(key)`.
Array split(const Operand& key, std::int64_t count = 2);
template <std::size_t count>
std::array<Array, count> split(const Operand& key);

/// A new key from a key and an integer or an integer scalar array.
Array fold_in(const Operand& key, const Operand& data);

/// Uniformly distributed bits, of dtype u8, u16, u32 or u64.
Array bits(const Operand& key, const Shape& shape, DType dtype = DType::kU32);

/// Uniform in [minval, maxval). Throws DTypeError unless the dtype is floating.
Array uniform(const Operand& key, const Shape& shape = {}, DType dtype = DType::kF32,
              const Operand& minval = 0.0, const Operand& maxval = 1.0);

/// Integers in [minval, maxval), almost uniform; minval if the range is empty. The bounds are C++ numbers, or
/// arrays that broadcast to the shape.
Array randint(const Operand& key, const Shape& shape, const Operand& minval, const Operand& maxval,
              DType dtype = DType::kI32);

/// true with probability p.
Array bernoulli(const Operand& key, const Operand& p = 0.5, const Shape& shape = {});

/// Standard normal, for f32, f16 or bf16. The numbers agree with JAX's within a few units in the last place.
Array normal(const Operand& key, const Shape& shape = {}, DType dtype = DType::kF32);

/// Standard normal, restricted to [lower, upper]. Throws Error unless lower < upper.
Array truncated_normal(const Operand& key, double lower, double upper, const Shape& shape = {},
                       DType dtype = DType::kF32);

/// The Gumbel distribution. Throws DTypeError unless the dtype is floating.
Array gumbel(const Operand& key, const Shape& shape = {}, DType dtype = DType::kF32);

/// Indices along the last dimension of the logits, drawn with probabilities softmax(logits): i32, with the
/// shape of the logits' other dimensions.
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
