// SPDX-License-Identifier: Apache-2.0
#include "lockstep/metrics/number_of_array.h"

#include <array>
#include <cstring>

#include "lockstep/array/data.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/half.h"

namespace lockstep::metrics {
namespace {

template <class T>
T bits_as(const std::array<char, 8>& bits) {
  T value;
  std::memcpy(&value, bits.data(), sizeof value);
  return value;
}

}  // namespace

bool NumberOfArray::is_here(const Array& array) {
  return !internal::concrete(array, "[metrics::log]").shards.empty();
}

NumberOfArray::NumberOfArray(const Array& array, const std::string& name) : dtype_(array.dtype()) {
  if (array.size() != 1) {
    fail<ShapeError>("[metrics::log] expected a number for '{}', got {} (at {}); reduce it, with mean or sum",
                     name, to_string(array.aval()), CallSiteScope::current().to_string());
  }
  if (is_complex(dtype_)) {
    fail<DTypeError>("[metrics::log] expected a real number for '{}', got {} (at {}); take abs, real or imag",
                     name, to_string(array.aval()), CallSiteScope::current().to_string());
  }
  internal::check_has_elements(internal::concrete(array, "[metrics::log]"), "[metrics::log]");
  buffer_ = internal::concrete(array, "[metrics::log]").shards.front().share();
}

double NumberOfArray::read() const {
  std::array<char, 8> bits{};
  buffer_.to_host(bits.data(), size_of(dtype_));
  switch (dtype_) {
    case DType::kBool:
    case DType::kU8:
      return bits_as<std::uint8_t>(bits);
    case DType::kI8:
      return bits_as<std::int8_t>(bits);
    case DType::kI16:
      return bits_as<std::int16_t>(bits);
    case DType::kI32:
      return bits_as<std::int32_t>(bits);
    case DType::kI64:
      return static_cast<double>(bits_as<std::int64_t>(bits));
    case DType::kU16:
      return bits_as<std::uint16_t>(bits);
    case DType::kU32:
      return bits_as<std::uint32_t>(bits);
    case DType::kU64:
      return static_cast<double>(bits_as<std::uint64_t>(bits));
    case DType::kF32:
      return bits_as<float>(bits);
    case DType::kF64:
      return bits_as<double>(bits);
    default:
      return narrow_float_value(dtype_, bits.data());
  }
}

}  // namespace lockstep::metrics
