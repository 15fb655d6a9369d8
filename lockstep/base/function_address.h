// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

namespace lockstep::internal {

/// A pointer without type to a function object or plain function, and back.
template <class F>
void* address_of(F& function) {
  if constexpr (std::is_function_v<F>)
    return reinterpret_cast<void*>(&function);
  else
    return const_cast<void*>(static_cast<const void*>(&function));
}
template <class F>
F& function_at(void* address) {
  if constexpr (std::is_function_v<F>)
    return *reinterpret_cast<F*>(address);
  else
    return *static_cast<F*>(address);
}

}  // namespace lockstep::internal
