#pragma once

#include <concepts>
#include <cstdint>
#include <deque>
#include <mutex>
#include <type_traits>
#include <utility>

#include "lockstep/tree/visit.h"

namespace lockstep {

namespace internal {

/// The values of one type that static_ was given, each once; kept while the process lives.
template <class T>
class StaticValues {
 public:
  static StaticValues& get() {
    static auto& values = *new StaticValues;
    return values;
  }
  std::uint64_t add(T value) {
    std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (all_[i] == value) return i;
    }
    all_.push_back(std::move(value));
    return all_.size() - 1;
  }
  const T& operator[](std::uint64_t id) {
    std::lock_guard lock(mutex_);
    return all_[static_cast<std::size_t>(id)];
  }

 private:
  std::mutex mutex_;
  std::deque<T> all_;
};

}  // namespace internal

/// A value of any type with ==, as an argument of a jitted function, or within one: JAX's static argument. It
/// is compiled in; the function is traced anew for one that equals none of before. Made by static_. (Enums,
/// strings, numbers that the function takes as numbers, and aggregates of these need none: they are static as
/// they are.)
///   auto step = jit([](Array x, Static<Config> config) { return config->scale * x; });
///   step(x, static_(config));
template <std::equality_comparable T>
struct Static {
  std::uint64_t id = 0;  ///< of the value; equal exactly for equal values

  const T& operator*() const { return internal::StaticValues<T>::get()[id]; }
  const T* operator->() const { return &**this; }

  /// Its id means nothing to another process: it is const here, so that no checkpoint has it.
  static void tree_parts(Static& self, tree::Parts& part) { part("id", std::as_const(self.id)); }
};

/// The value, for Static. It is kept while the process lives.
template <class T>
Static<std::decay_t<T>> static_(T&& value) {
  return {internal::StaticValues<std::decay_t<T>>::get().add(std::forward<T>(value))};
}

}  // namespace lockstep
