// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <type_traits>
#include <utility>

#include "lockstep/array/array.h"
#include "lockstep/base/cpp_type.h"
#include "lockstep/base/fail.h"

namespace lockstep {
namespace {

/// Stores the element as a T, of the same kind or a wider one; false if T cannot represent it.
template <class T, class From>
bool store(From element, void* destination) {
  constexpr bool is_complex = !std::is_arithmetic_v<From>;
  if constexpr (std::is_void_v<T> || std::is_same_v<T, bool> || (std::is_arithmetic_v<T> && is_complex)) {
    return false;
  } else {
    T stored;
    if constexpr (std::is_arithmetic_v<T>) {
      if constexpr (std::is_integral_v<T> && std::is_integral_v<From> && !std::is_same_v<From, bool>) {
        if (!std::in_range<T>(element)) return false;
      }
      stored = static_cast<T>(element);
    } else if constexpr (is_complex) {
      stored = T(element);
    } else {
      stored = T(static_cast<typename T::value_type>(element));
    }
    std::memcpy(destination, &stored, sizeof stored);
    return true;
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
        "[item] the element of {} cannot be read as {} (at {}); convert the array with astype, or read {} "
        "elements",
        lockstep::to_string(type), name(as), CallSiteScope::current().to_string(), name(dtype()));
  }
  alignas(16) unsigned char bytes[16];
  copy_to_host(bytes, dtype());
  const bool fits = with_element(dtype(), bytes, [&](auto element) {
    return with_cpp_type(as, [&]<class T>(std::type_identity<T>) { return store<T>(element, value); });
  });
  if (!fits) {
    fail<DTypeError>("[item] {} cannot represent the element of {} (at {}); read a wider C++ type", name(as),
                     lockstep::to_string(type), CallSiteScope::current().to_string());
  }
}

}  // namespace lockstep
