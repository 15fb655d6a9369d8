// SPDX-License-Identifier: Apache-2.0
#include "lockstep/metrics/number_of_array.h"

#include <array>
#include <type_traits>

#include "lockstep/array/data.h"
#include "lockstep/base/cpp_type.h"
#include "lockstep/base/fail.h"

namespace lockstep::metrics {

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
  return with_element(dtype_, bits.data(), []<class T>(T number) {
    if constexpr (std::is_arithmetic_v<T>)
      return static_cast<double>(number);
    else
      return 0.0;  // a complex number, which the constructor refuses
  });
}

}  // namespace lockstep::metrics
