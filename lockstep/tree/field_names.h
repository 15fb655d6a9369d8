// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include "lockstep/base/fields.h"

namespace lockstep::tree::internal {

/// Objects that are never constructed: the addresses of their fields contain the fields' names.
template <class T>
struct Named {
  T value;
};
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-var-template"
#pragma clang diagnostic ignored "-Wundefined-internal"
#endif
template <class T>
extern const Named<T> named;

/// The addresses of an object's fields.
template <std::size_t n>
struct Addresses {
  const void* of[n == 0 ? 1 : n];
};
struct TakeAddresses {
  template <class... Field>
  constexpr Addresses<sizeof...(Field)> operator()(const Field&... field) const {
    return {{std::addressof(field)...}};
  }
};
/// An address as a template's argument.
struct Address {
  const void* field;
};
template <Address address>
consteval std::string_view text_with_address() {
  return __PRETTY_FUNCTION__;
}

/// The last word before the last brace.
consteval std::string_view last_word(std::string_view text) {
  auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  std::size_t end = text.rfind('}');
  while (!is_part(text[end - 1])) --end;
  std::size_t begin = end;
  while (is_part(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}

/// The fields' names, from the compiler's texts for their addresses.
template <class T, std::size_t... i>
consteval std::array<std::string_view, sizeof...(i)> names_of(std::index_sequence<i...>) {
  [[maybe_unused]] constexpr Addresses<sizeof...(i)> addresses =
      fields::apply(named<T>.value, TakeAddresses());
  return {last_word(text_with_address<Address{addresses.of[i]}>())...};
}
template <class T>
inline constexpr auto field_names = names_of<T>(std::make_index_sequence<fields::count<T>>());
#if defined(__clang__)
#pragma clang diagnostic pop
#endif

}  // namespace lockstep::tree::internal
