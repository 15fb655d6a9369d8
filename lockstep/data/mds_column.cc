// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/mds_column.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/data/file.h"

namespace lockstep::data::internal {
namespace {

constexpr std::array<std::string_view, 10> kBytes = {"bytes", "str",  "jpeg",    "png",       "pil",
                                                     "pkl",   "json", "str_int", "str_float", "str_decimal"};

/// The meaning of the first byte of an array whose dtype is not in the index.
constexpr std::pair<std::uint8_t, DType> kCodes[] = {{8, DType::kU8},   {9, DType::kI8},   {16, DType::kU16},
                                                     {17, DType::kI16}, {18, DType::kF16}, {32, DType::kU32},
                                                     {33, DType::kI32}, {34, DType::kF32}, {64, DType::kU64},
                                                     {65, DType::kI64}, {66, DType::kF64}};

std::optional<DType> dtype_of_name(std::string_view name) {
  for (auto [code, dtype] : kCodes) {
    if (info(dtype).numpy_name == name) return dtype;
  }
  return std::nullopt;
}

std::uint64_t bytes_of(DType dtype, const Shape& shape) {
  std::uint64_t bytes = size_of(dtype);
  for (std::int64_t size : shape) {
    if (size < 1 || !multiply(bytes, static_cast<std::uint64_t>(size), &bytes))
      fail<DataError>("the shape {} is not the shape of an array", lockstep::to_string(shape));
  }
  return bytes;
}

Shape shape_of_text(std::string_view text) {
  Shape shape;
  while (true) {
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || size < 1) fail<DataError>("the shape '{}' cannot be read", text);
    shape.push_back(size);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) return shape;
    if (text[0] != ',') fail<DataError>("the shape '{}' cannot be read", text);
    text.remove_prefix(1);
  }
}

Field field_of(DType dtype, Shape shape, std::string_view bytes) {
  const auto all = std::as_bytes(std::span(bytes));
  return {dtype, std::move(shape), {all.begin(), all.end()}};
}

}  // namespace

MdsColumn::MdsColumn(std::string name, std::string encoding, std::optional<std::uint64_t> size)
    : name_(std::move(name)), encoding_(std::move(encoding)), size_(size) {
  const std::string_view text = encoding_;
  const std::string_view kind = text.substr(0, text.find(':'));
  const std::string_view rest = kind.size() < text.size() ? text.substr(kind.size() + 1) : "";
  if (std::ranges::find(kBytes, kind) != kBytes.end()) return;
  std::optional<std::uint64_t> expected;
  if (kind == "ndarray") {
    is_array_ = true;
    if (!rest.empty()) {
      const std::string_view type = rest.substr(0, rest.find(':'));
      dtype_ = dtype_of_name(type);
      if (!dtype_) fail<DataError>("column '{}' has arrays of an unknown dtype '{}'", name_, type);
      if (type.size() < rest.size()) {
        shape_ = shape_of_text(rest.substr(type.size() + 1));
        expected = bytes_of(*dtype_, *shape_);
      }
    }
  } else {
    dtype_ = kind == "int" ? DType::kI64 : dtype_of_name(kind);
    if (!dtype_) {
      fail<DataError>(
          "column '{}' has an unknown encoding '{}'; this reader knows bytes, str, int, int8 to "
          "int64, uint8 to uint64, float16 to float64, str_int, str_float, str_decimal, ndarray, "
          "jpeg, png, pil, pkl and json",
          name_, encoding_);
    }
    shape_ = Shape();
    expected = size_of(*dtype_);
  }
  if (size_ != expected) {
    fail<DataError>("column '{}' of encoding '{}' is said to have {} bytes, expected {}", name_, encoding_,
                    size_ ? std::to_string(*size_) : "any number of",
                    expected ? std::to_string(*expected) : "any number");
  }
}

Field MdsColumn::decode(std::string_view bytes) const {
  if (is_array_) return decode_array(bytes);
  if (!dtype_) return Field::text(bytes);
  return field_of(*dtype_, {}, bytes);
}

Field MdsColumn::decode_array(std::string_view bytes) const {
  auto take = [&](std::size_t count) {
    if (count > bytes.size()) fail<DataError>("the array of column '{}' is cut off", name_);
    const std::string_view taken = bytes.substr(0, count);
    bytes.remove_prefix(count);
    return taken;
  };
  std::optional<DType> dtype = dtype_;
  if (!dtype) {
    const auto code = static_cast<std::uint8_t>(take(1)[0]);
    for (auto [known, named] : kCodes) {
      if (known == code) dtype = named;
    }
    if (!dtype) fail<DataError>("the array of column '{}' has an unknown dtype {}", name_, code);
  }
  Shape shape;
  if (shape_) {
    shape = *shape_;
  } else {
    const auto head = static_cast<std::uint8_t>(take(1)[0]);
    const std::size_t rank = head >> 2, size_bytes = std::size_t{1} << (head & 3);
    for (std::size_t i = 0; i < rank; ++i) {
      std::uint64_t size = 0;
      std::memcpy(&size, take(size_bytes).data(), size_bytes);
      if (size == 0 || size >> 62 != 0) fail<DataError>("the array of column '{}' has size {}", name_, size);
      shape.push_back(static_cast<std::int64_t>(size));
    }
  }
  const std::uint64_t expected = bytes_of(*dtype, shape);
  if (bytes.size() != expected) {
    fail<DataError>("the array of column '{}', {} of shape {}, should have {} bytes, but has {}", name_,
                    lockstep::name(*dtype), lockstep::to_string(shape), expected, bytes.size());
  }
  return field_of(*dtype, std::move(shape), bytes);
}

}  // namespace lockstep::data::internal
