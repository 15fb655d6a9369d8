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

/// The different values of one type that were passed to static_; kept until the process ends.
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

/// A value of any type with ==, as an argument of a jitted function or within one: JAX's static argument. It
/// is compiled in; the function is traced again for a value that equals none of the previous ones. Made by
/// static_. (Enums, strings, numbers that the function takes as numbers, and aggregates of these do not need
/// it: they are static anyway.)
///   auto step = jit([](Array x, Static<Config> config) { return config->scale * x; });
///   step(x, static_(config));
template <std::equality_comparable T>
struct Static {
  std::uint64_t id = 0;  ///< of the value; equal if and only if the values are

  const T& operator*() const { return internal::StaticValues<T>::get()[id]; }
  const T* operator->() const { return &**this; }

  /// The id is only valid in this process: it is const here, so that checkpoints do not contain it.
  static void tree_parts(Static& self, tree::Parts& part) { part("id", std::as_const(self.id)); }
};

/// A Static with this value, which is kept until the process ends.
template <class T>
Static<std::decay_t<T>> static_(T&& value) {
  return {internal::StaticValues<std::decay_t<T>>::get().add(std::forward<T>(value))};
}

}  // namespace lockstep
