// SPDX-License-Identifier: Apache-2.0
#include "lockstep/random/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "lockstep/array/host.h"
#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/special.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/random.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/random/words.h"

namespace lockstep::random {
namespace {

using ops::Tracers;

Array traced_bits(const Array& key, const Shape& shape, DType dtype) {
  return bits_of(words_at_places(key, shape), dtype);
}

Array traced_uniform(const Array& key, const Shape& shape, DType dtype, const Operand& minval,
                     const Operand& maxval) {
  return uniform_of(words_at_places(key, shape), dtype, minval, maxval);
}

/// The unsigned dtype with as many bits.
DType unsigned_of(DType dtype) {
  constexpr DType kDTypes[] = {DType::kU8, DType::kU16, DType::kU32, DType::kU64};
  return kDTypes[std::countr_zero(size_of(dtype))];
}

/// A bound of randint, clamped to the range of the dtype.
struct Bound {
  Array array;
  bool too_high = false;
};

Bound bound_of(const Operand& value, DType dtype) {
  if (!value.is_number()) {
    if (value.type().dtype != dtype) {
      fail<DTypeError>("[random::randint] expected bounds of {}, got {}{}; convert them with astype",
                       name(dtype), to_string(value.aval()), ops::at());
    }
    return {value.as_array()};
  }
  if (!value.is_integer_number()) {
    fail<DTypeError>("[random::randint] expected whole numbers as bounds, got {}{}", value.real(), ops::at());
  }
  const int bits = static_cast<int>(size_of(dtype)) * 8;
  const bool has_sign = info(dtype).kind == DTypeKind::kSigned;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::int64_t highest = has_sign || bits < 64 ? kMost >> (64 - bits - !has_sign) : kMost;
  const std::int64_t lowest = has_sign ? -highest - 1 : 0;
  const std::int64_t clamped = std::clamp(value.integer(), lowest, highest);
  return {Operand(clamped, value.where()).as_array({dtype, false}), value.integer() > highest};
}

std::string key_of(const Shape& shape, DType dtype) {
  return fmt::format("{} {}", to_string(shape), name(dtype));
}

}  // namespace

Key key(std::uint64_t seed, SourceLocation where) {
  CallSiteScope here(CallSite::from(where));
  const std::uint32_t words[] = {static_cast<std::uint32_t>(seed >> 32), static_cast<std::uint32_t>(seed)};
  return internal::array_from_host(words, DType::kU32, {2});
}

Key split(const KeyOperand& key, std::int64_t count) {
  CallSiteScope here(key.site());
  check_key("split", key);
  check_shape("split", {count});
  return ops::run("random::split", fmt::format("{}", count), {key.as_array()}, [&](Tracers t) {
    auto [first, second] = words_at_places(t[0], {count});
    const Array words[] = {ir::lax::reshape(first, {count, 1}), ir::lax::reshape(second, {count, 1})};
    return ir::lax::concatenate(std::span<const Array>(words), 1);
  });
}

Key fold_in(const KeyOperand& key, const Operand& data) {
  CallSiteScope here(key.site());
  check_key("fold_in", key);
  if (!is_integer(data.type().dtype) || !data.shape().empty()) {
    fail<ShapeError>("[random::fold_in] expected a whole number, got {}{}", to_string(data.aval()),
                     ops::at());
  }
  return ops::run("random::fold_in", "", {key.as_array(), data.as_array({DType::kU32, false})},
                  [](Tracers t) {
                    Array number = ir::lax::reshape(ir::lax::convert_element_type(t[1], DType::kU32), {1});
                    auto [first, second] = ir::lax::threefry2x32(word(t[0], 0, {1}), word(t[0], 1, {1}),
                                                                 ir::lax::full_like(number, 0), number);
                    const Array words[] = {first, second};
                    return ir::lax::concatenate(std::span<const Array>(words), 0);
                  });
}

Array bits(const KeyOperand& key, const Shape& shape, DType dtype) {
  CallSiteScope here(key.site());
  check_key("bits", key);
  check_shape("bits", shape);
  if (info(dtype).kind != DTypeKind::kUnsigned) {
    fail<DTypeError>("[random::bits] expected an unsigned dtype, got {}{}", name(dtype), ops::at());
  }
  return ops::run("random::bits", key_of(shape, dtype), {key.as_array()},
                  [&](Tracers t) { return traced_bits(t[0], shape, dtype); });
}

Array uniform(const KeyOperand& key, const Shape& shape, DType dtype, const Operand& minval,
              const Operand& maxval) {
  CallSiteScope here(key.site());
  check_key("uniform", key);
  check_shape("uniform", shape);
  check_floating("uniform", dtype);
  const ElementType type{dtype, false};
  return ops::run("random::uniform", key_of(shape, dtype),
                  {key.as_array(), minval.as_array(type), maxval.as_array(type)},
                  [&](Tracers t) { return traced_uniform(t[0], shape, dtype, t[1], t[2]); });
}

Array randint(const KeyOperand& key, const Shape& shape, const Operand& minval, const Operand& maxval,
              DType dtype) {
  CallSiteScope here(key.site());
  check_key("randint", key);
  check_shape("randint", shape);
  if (!is_integer(dtype)) {
    fail<DTypeError>("[random::randint] expected an integer dtype, got {}{}", name(dtype), ops::at());
  }
  const Bound low = bound_of(minval, dtype), high = bound_of(maxval, dtype);
  return ops::run(
      "random::randint", fmt::format("{} {}", key_of(shape, dtype), high.too_high),
      {key.as_array(), low.array, high.array}, [&](Tracers t) {
        // At least 32 bits, so that the numbers are nearly uniform.
        const bool is_small = size_of(dtype) < 4;
        const DType computed = is_small ? DType::kI32 : dtype, drawn = unsigned_of(computed);
        auto bound = [&](const Array& x) {
          return ops::broadcast(ir::lax::convert_element_type(x, computed), shape);
        };
        Array low = bound(t[1]), high_bound = bound(t[2]);
        if (is_small && high.too_high)
          high_bound = ir::lax::add(high_bound, ir::lax::full_like(high_bound, 1));
        const auto [high_key, low_key] = random::split<2>(t[0]);
        Array high_bits = traced_bits(high_key.data(), shape, drawn),
              low_bits = traced_bits(low_key.data(), shape, drawn);
        Array span = ir::lax::convert_element_type(ir::lax::sub(high_bound, low), drawn);
        Array one = ir::lax::full_like(span, 1), empty = ir::lax::le(high_bound, low);
        // One more if maxval is the dtype's highest number plus 1; it may wrap to 0, and a
        // remainder by 0 is x.
        if (!is_small && high.too_high) span = ir::lax::add(span, one);
        span = ir::lax::select(empty, one, span);
        // (high_bits * 2^bits + low_bits) mod span, in the bits that there are.
        Array half = ir::lax::rem(
            ir::lax::full_like(span, std::ldexp(1.0, static_cast<int>(size_of(drawn)) * 4)), span);
        Array multiplier = ir::lax::rem(ir::lax::mul(half, half), span);
        Array offset = ir::lax::add(ir::lax::mul(ir::lax::rem(high_bits, span), multiplier),
                                    ir::lax::rem(low_bits, span));
        const Array from_low = ir::lax::convert_element_type(ir::lax::rem(offset, span), computed);
        return ir::lax::convert_element_type(ir::lax::add(low, from_low), dtype);
      });
}

Array bernoulli(const KeyOperand& key, const Operand& p, const Shape& shape) {
  CallSiteScope here(key.site());
  const Shape whole = shape.empty() ? p.shape() : shape;
  return less(uniform(key, whole, to_inexact(p.type()).dtype), p);
}

Array normal(const KeyOperand& key, const Shape& shape, DType dtype) {
  CallSiteScope here(key.site());
  check_key("normal", key);
  check_shape("normal", shape);
  check_floating("normal", dtype);
  return ops::run("random::normal", key_of(shape, dtype), {key.as_array()}, [&](Tracers t) {
    return std::numbers::sqrt2 * erf_inv(traced_uniform(t[0], shape, dtype, above_minus_one(dtype), 1.0));
  });
}

Array truncated_normal(const KeyOperand& key, double lower, double upper, const Shape& shape, DType dtype) {
  CallSiteScope here(key.site());
  check_key("truncated_normal", key);
  check_shape("truncated_normal", shape);
  check_floating("truncated_normal", dtype);
  if (!(lower < upper)) {
    fail("[random::truncated_normal] expected lower < upper, got {} and {}{}", lower, upper, ops::at());
  }
  const Operand low = std::erf(lower / std::numbers::sqrt2), high = std::erf(upper / std::numbers::sqrt2);
  const ElementType type{dtype, false};
  const Operand lowest = lower, highest = upper;
  return ops::run("random::truncated_normal", key_of(shape, dtype),
                  {key.as_array(), low.as_array(type), high.as_array(type), lowest.as_array(type),
                   highest.as_array(type)},
                  [&](Tracers t) {
                    Array x = std::numbers::sqrt2 * erf_inv(traced_uniform(t[0], shape, dtype, t[1], t[2]));
                    return clip(x, ops::convert(t[3], type), ops::convert(t[4], type));
                  });
}

Array gumbel(const KeyOperand& key, const Shape& shape, DType dtype) {
  CallSiteScope here(key.site());
  check_key("gumbel", key);
  check_shape("gumbel", shape);
  check_floating("gumbel", dtype);
  const double tiny = finfo(dtype).tiny;
  return ops::run("random::gumbel", key_of(shape, dtype), {key.as_array()},
                  [&](Tracers t) { return -log(-log(traced_uniform(t[0], shape, dtype, tiny, 1.0))); });
}

Array categorical(const KeyOperand& key, const Operand& logits) {
  CallSiteScope here(key.site());
  const DType dtype = to_inexact(logits.type()).dtype;
  return argmax(gumbel(key, logits.shape(), dtype) + logits, -1);
}

}  // namespace lockstep::random
