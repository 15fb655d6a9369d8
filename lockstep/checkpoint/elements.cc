// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/elements.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/base/half.h"

namespace lockstep::checkpoint {
namespace {

/// The number as a float whose last bit says whether something was cut off, so that rounding it once more
/// gives what rounding `value` would.
float cut(double value) {
  auto near = static_cast<float>(value);
  if (!std::isfinite(near) || near == value) return near;
  if (std::abs(static_cast<double>(near)) > std::abs(value)) near = std::nextafter(near, 0.0f);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(near) | 1);
}

const std::array<float, 65536>& f16_values() {
  static const auto values = [] {
    std::array<float, 65536> all;
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = f16_value(static_cast<std::uint16_t>(i));
    return all;
  }();
  return values;
}

template <class From, class To, class F>
void each(const std::byte* from, std::byte* to, std::size_t count, F f) {
  for (std::size_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    const To result = f(value);
    std::memcpy(to + i * sizeof result, &result, sizeof result);
  }
}

template <class From, class Value>
void convert_values(const std::byte* from, std::byte* to, DType to_dtype, std::size_t count, Value value) {
  auto narrow = [&](From x) {
    if constexpr (std::is_same_v<From, double>)
      return cut(x);
    else
      return value(x);
  };
  switch (to_dtype) {
    case DType::kF16:
      return each<From, std::uint16_t>(from, to, count, [&](From x) { return f16_bits(narrow(x)); });
    case DType::kBF16:
      return each<From, std::uint16_t>(from, to, count, [&](From x) { return bf16_bits(narrow(x)); });
    case DType::kF8E4M3FN:
      return each<From, std::uint8_t>(from, to, count, [&](From x) { return f8_e4m3fn_bits(narrow(x)); });
    case DType::kF8E5M2:
      return each<From, std::uint8_t>(from, to, count, [&](From x) { return f8_e5m2_bits(narrow(x)); });
    case DType::kF32:
      return each<From, float>(from, to, count, [&](From x) { return static_cast<float>(value(x)); });
    default:
      return each<From, double>(from, to, count, [&](From x) { return static_cast<double>(value(x)); });
  }
}

/// Blocks of this many rows and columns, so that both sides of a transposition stay in the cache.
constexpr std::int64_t kBlock = 32;

template <class T>
void copy_rows(std::span<const std::int64_t> shape, const std::byte* from,
               std::span<const std::int64_t> from_strides, std::byte* to,
               std::span<const std::int64_t> to_strides) {
  const std::size_t rank = shape.size();
  if (rank > 2) {
    for (std::int64_t i = 0; i < shape[0]; ++i) {
      copy_rows<T>(shape.subspan(1), from + i * from_strides[0] * std::int64_t{sizeof(T)},
                   from_strides.subspan(1), to + i * to_strides[0] * std::int64_t{sizeof(T)},
                   to_strides.subspan(1));
    }
    return;
  }
  const std::int64_t rows = rank < 2 ? 1 : shape[0], columns = rank < 1 ? 1 : shape[rank - 1];
  const std::int64_t from_row = rank < 2 ? 0 : from_strides[0], to_row = rank < 2 ? 0 : to_strides[0];
  const std::int64_t from_column = rank < 1 ? 0 : from_strides[rank - 1];
  const std::int64_t to_column = rank < 1 ? 0 : to_strides[rank - 1];
  constexpr std::int64_t kSize = sizeof(T);
  if (from_column == 1 && to_column == 1) {
    for (std::int64_t i = 0; i < rows; ++i)
      std::memcpy(to + i * to_row * kSize, from + i * from_row * kSize,
                  static_cast<std::size_t>(columns) * sizeof(T));
    return;
  }
  for (std::int64_t row = 0; row < rows; row += kBlock) {
    for (std::int64_t column = 0; column < columns; column += kBlock) {
      for (std::int64_t i = row; i < std::min(rows, row + kBlock); ++i) {
        for (std::int64_t j = column; j < std::min(columns, column + kBlock); ++j)
          std::memcpy(to + (i * to_row + j * to_column) * kSize,
                      from + (i * from_row + j * from_column) * kSize, sizeof(T));
      }
    }
  }
}

}  // namespace

bool can_convert(DType from, DType to) { return from == to || (is_floating(from) && is_floating(to)); }

void convert(const std::byte* from, DType from_dtype, std::byte* to, DType to_dtype, std::size_t count) {
  if (from_dtype == to_dtype) {
    if (count > 0) std::memcpy(to, from, count * size_of(to_dtype));
    return;
  }
  if (!can_convert(from_dtype, to_dtype)) fail_internally("{} to {}", name(from_dtype), name(to_dtype));
  switch (from_dtype) {
    case DType::kF16: {
      const auto& values = f16_values();
      return convert_values<std::uint16_t>(from, to, to_dtype, count,
                                           [&](std::uint16_t x) { return values[x]; });
    }
    case DType::kBF16:
      return convert_values<std::uint16_t>(from, to, to_dtype, count, bf16_value);
    case DType::kF8E4M3FN:
      return convert_values<std::uint8_t>(from, to, to_dtype, count, f8_e4m3fn_value);
    case DType::kF8E5M2:
      return convert_values<std::uint8_t>(from, to, to_dtype, count, f8_e5m2_value);
    case DType::kF32:
      return convert_values<float>(from, to, to_dtype, count, [](float x) { return x; });
    default:
      return convert_values<double>(from, to, to_dtype, count, [](double x) { return x; });
  }
}

void copy_elements(std::span<const std::int64_t> shape, std::size_t element, const std::byte* from,
                   std::span<const std::int64_t> from_strides, std::byte* to,
                   std::span<const std::int64_t> to_strides) {
  for (std::int64_t size : shape)
    if (size == 0) return;
  switch (element) {
    case 1:
      return copy_rows<std::uint8_t>(shape, from, from_strides, to, to_strides);
    case 2:
      return copy_rows<std::uint16_t>(shape, from, from_strides, to, to_strides);
    case 4:
      return copy_rows<std::uint32_t>(shape, from, from_strides, to, to_strides);
    case 8:
      return copy_rows<std::uint64_t>(shape, from, from_strides, to, to_strides);
    default:
      return copy_rows<std::array<std::uint64_t, 2>>(shape, from, from_strides, to, to_strides);
  }
}

}  // namespace lockstep::checkpoint
