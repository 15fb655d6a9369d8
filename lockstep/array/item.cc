// SPDX-License-Identifier: Apache-2.0
#include <complex>
#include <cstring>
#include <limits>
#include <utility>
#include <variant>

#include "lockstep/array/array.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/half.h"

namespace lockstep {
namespace {

using Element = std::variant<bool, std::int64_t, std::uint64_t, double, std::complex<double>>;

template <class T>
T loaded(const void* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

Element loaded(DType dtype, const void* bytes) {
  switch (dtype) {
    case DType::kBool:
      return loaded<std::uint8_t>(bytes) != 0;
    case DType::kI8:
      return std::int64_t{loaded<std::int8_t>(bytes)};
    case DType::kI16:
      return std::int64_t{loaded<std::int16_t>(bytes)};
    case DType::kI32:
      return std::int64_t{loaded<std::int32_t>(bytes)};
    case DType::kI64:
      return loaded<std::int64_t>(bytes);
    case DType::kU8:
      return std::uint64_t{loaded<std::uint8_t>(bytes)};
    case DType::kU16:
      return std::uint64_t{loaded<std::uint16_t>(bytes)};
    case DType::kU32:
      return std::uint64_t{loaded<std::uint32_t>(bytes)};
    case DType::kU64:
      return loaded<std::uint64_t>(bytes);
    case DType::kF32:
      return double{loaded<float>(bytes)};
    case DType::kF64:
      return loaded<double>(bytes);
    case DType::kC64:
      return std::complex<double>(loaded<std::complex<float>>(bytes));
    case DType::kC128:
      return loaded<std::complex<double>>(bytes);
    default:
      return double{narrow_float_value(dtype, bytes)};
  }
}

/// Stores the element as a number; false if T cannot represent it.
template <class T>
bool store(const Element& element, void* destination) {
  return std::visit(
      [&](auto value) {
        using From = decltype(value);
        if constexpr (std::is_arithmetic_v<From>) {
          if constexpr (std::is_integral_v<T> && std::is_integral_v<From> && !std::is_same_v<From, bool>) {
            if (!std::in_range<T>(value)) return false;
          }
          const T stored = static_cast<T>(value);
          std::memcpy(destination, &stored, sizeof(T));
          return true;
        } else {
          return false;
        }
      },
      element);
}

template <class Part>
bool store_complex(const Element& element, void* destination) {
  const auto stored = std::visit(
      [](auto value) {
        if constexpr (std::is_arithmetic_v<decltype(value)>)
          return std::complex<Part>(static_cast<Part>(value));
        else
          return std::complex<Part>(value);
      },
      element);
  std::memcpy(destination, &stored, sizeof(stored));
  return true;
}

bool store(DType dtype, const Element& element, void* destination) {
  switch (dtype) {
    case DType::kI8:
      return store<std::int8_t>(element, destination);
    case DType::kI16:
      return store<std::int16_t>(element, destination);
    case DType::kI32:
      return store<std::int32_t>(element, destination);
    case DType::kI64:
      return store<std::int64_t>(element, destination);
    case DType::kU8:
      return store<std::uint8_t>(element, destination);
    case DType::kU16:
      return store<std::uint16_t>(element, destination);
    case DType::kU32:
      return store<std::uint32_t>(element, destination);
    case DType::kU64:
      return store<std::uint64_t>(element, destination);
    case DType::kF32:
      return store<float>(element, destination);
    case DType::kF64:
      return store<double>(element, destination);
    case DType::kC64:
      return store_complex<float>(element, destination);
    case DType::kC128:
      return store_complex<double>(element, destination);
    default:  // bool, and what C++ has no type for
      return false;
  }
}

/// The position of its kind among bool, integer, floating and complex.
int width_of_kind(DType dtype) {
  return dtype == DType::kBool ? 0 : is_integer(dtype) ? 1 : is_floating(dtype) ? 2 : 3;
}

}  // namespace

void Array::read_item(void* value, DType as) const {
  const Aval& type = aval();
  if (size() != 1)
    fail<ShapeError>("[item] expected an array of one element, got {} (at {})", lockstep::to_string(type),
                     CallSiteScope::current().to_string());
  if (as == dtype()) return copy_to_host(value, as);
  if (width_of_kind(as) < width_of_kind(dtype())) {
    fail<DTypeError>(
        "[item] the element of {} cannot be read as {} (at {}); convert with astype, or read the C++ type "
        "of {}",
        lockstep::to_string(type), name(as), CallSiteScope::current().to_string(), name(dtype()));
  }
  alignas(16) unsigned char bytes[16];
  copy_to_host(bytes, dtype());
  if (!store(as, loaded(dtype(), bytes), value)) {
    fail<DTypeError>("[item] {} cannot represent the element of {} (at {}); read a wider C++ type", name(as),
                     lockstep::to_string(type), CallSiteScope::current().to_string());
  }
}

}  // namespace lockstep
