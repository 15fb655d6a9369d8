#pragma once

#include <cstddef>
#include <string_view>

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
#endif
template <class T>
extern const Named<T> named;

template <class T>
struct FieldPointer {
  const T* field;
};
template <class T>
FieldPointer(const T*) -> FieldPointer<T>;

template <auto pointer>
consteval std::string_view text_with_pointer() {
  return __PRETTY_FUNCTION__;
}

/// The i-th field's name, from the compiler's text for a pointer to it: the last word before the last brace.
template <class T, std::size_t i>
consteval std::string_view field_name() {
  constexpr std::string_view text = text_with_pointer<FieldPointer{&fields::get<i>(named<T>.value)}>();
  auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  std::size_t end = text.rfind('}');
  while (!is_part(text[end - 1])) --end;
  std::size_t begin = end;
  while (is_part(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}
#if defined(__clang__)
#pragma clang diagnostic pop
#endif

}  // namespace lockstep::tree::internal
