// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "lockstep/tree/visit.h"

namespace lockstep {

namespace internal {

/// How values of one type are compared and kept; its address stands for the type.
struct StaticType {
  bool (*equal)(const void* a, const void* b);
  const void* (*keep)(void* value);  ///< moves it to memory that is never freed
};

template <class T>
inline constexpr StaticType static_type = {
    .equal = [](const void* a,
                const void* b) { return *static_cast<const T*>(a) == *static_cast<const T*>(b); },
    .keep = [](void* value) -> const void* { return new T(std::move(*static_cast<T*>(value))); },
};

/// The number of a value of this type among the different ones that were passed to static_, from 0. A new one
/// is moved, and kept until the process ends. Calls the type's == without a lock.
std::uint64_t static_id(const StaticType& type, void* value);
const void* static_value(const StaticType& type, std::uint64_t id);

}  // namespace internal

/// A value of any type with ==, as an argument of a jitted function or within one: JAX's static argument. It
/// is compiled in; the function is traced again for a value that equals none of the previous ones. Made by
/// static_. (Enums, strings, numbers that the function takes as numbers, and aggregates of these do not need
/// it: they are static anyway.)
///   auto step = jit([](Array x, Static<Config> config) { return config->scale * x; });
///   step(x, static_(config));
template <std::equality_comparable T>
struct Static {
  std::uint64_t id = 0;  ///< of the value; equal if and only if the values are

  const T& operator*() const {
    return *static_cast<const T*>(internal::static_value(internal::static_type<T>, id));
  }
  const T* operator->() const { return &**this; }

  /// The id is only valid in this process.
  static void tree_parts(Static& self, tree::Parts& part) { part.only_here(self.id); }
};

/// A Static with this value, which is kept until the process ends.
template <class T>
Static<std::decay_t<T>> static_(T&& value) {
  using Value = std::decay_t<T>;
  Value given(std::forward<T>(value));
  return {internal::static_id(internal::static_type<Value>, &given)};
}

}  // namespace lockstep
