// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "lockstep/array/array.h"

/// Numbers among the arguments of traced functions. As in JAX they are scalars with a weak dtype; but if a
/// C++ function only takes a number, it gets the number.
namespace lockstep::internal {

/// The number as an Array with the dtype that Array gives it, made as by operations: in a trace it is a
/// constant of the program. Throws DTypeError for an integer that an i32 cannot hold.
Array number_array(bool value);
Array number_array(double value);
Array number_array(std::int64_t value);
Array number_array(std::uint64_t value);

template <Number T>
Array array_of_number(T value) {
  if constexpr (std::same_as<T, bool>)
    return number_array(value);
  else if constexpr (std::is_floating_point_v<T>)
    return number_array(static_cast<double>(value));
  else if constexpr (std::is_unsigned_v<T>)
    return number_array(static_cast<std::uint64_t>(value));
  else
    return number_array(static_cast<std::int64_t>(value));
}

/// The i-th of the subsets of n things, as bits: first the empty one, then those of one thing, of two, …
constexpr std::uint32_t subset(std::uint32_t i, std::uint32_t n) {
  for (std::uint32_t size = 0; size <= n; ++size) {
    for (std::uint32_t bits = 0; bits < std::uint32_t{1} << n; ++bits)
      if (std::popcount(bits) == static_cast<int>(size) && i-- == 0) return bits;
  }
  return 0;
}

}  // namespace lockstep::internal

namespace lockstep {

/// The types with which jit and the transformations call a function F for arguments of these types: numbers
/// become Arrays, as many of them as F accepts.
template <class F, class... Args>
class ParameterTypes {
  static constexpr std::uint32_t kNumbers = (0 + ... + std::uint32_t{Number<Args>});

  /// The sets of numbers that may stay numbers, in the order in which they are tried. If there are many
  /// numbers, only all or none.
  static constexpr bool kMany = kNumbers > 8;
  static constexpr std::uint32_t kSets = kMany ? 2 : std::uint32_t{1} << kNumbers;
  static constexpr std::uint32_t set(std::uint32_t i) {
    return kMany ? (i == 0 ? 0 : ~std::uint32_t{0}) : internal::subset(i, kNumbers);
  }

  /// Whether argument i is a number in the set `kept`.
  static constexpr bool keeps(std::uint32_t kept, std::size_t i) {
    constexpr bool number[] = {Number<Args>..., false};
    for (std::size_t k = 0; k < i; ++k)
      if (number[k]) kept >>= 1;
    return kept & 1;
  }

  template <std::uint32_t kept, std::size_t... i>
  static auto with(std::index_sequence<i...>)
      -> std::tuple<std::conditional_t<Number<Args> && !keeps(kept, i), Array, Args>...>;
  template <std::uint32_t kept>
  using With = decltype(with<kept>(std::index_sequence_for<Args...>()));

  template <class... P>
  static constexpr bool takes(std::type_identity<std::tuple<P...>>) {
    return std::is_invocable_v<F, P...>;
  }

  /// The first set of kept numbers, from the i-th on, with which F can be called.
  template <std::uint32_t i>
  static constexpr auto first() {
    using Types = std::type_identity<With<set(i)>>;
    if constexpr (takes(Types()))
      return Types();
    else if constexpr (i + 1 < kSets)
      return first<i + 1>();
    else
      return std::type_identity<void>();
  }

 public:
  using Types = typename decltype(first<0>())::type;  ///< a std::tuple; void if F cannot be called
};

/// Without numbers, which is the usual case, there is nothing to choose: cheap to compile.
template <class F, class... Args>
requires(!Number<Args> && ...) class ParameterTypes<F, Args...> {
 public:
  using Types = std::conditional_t<std::is_invocable_v<F, Args...>, std::tuple<Args...>, void>;
};

/// A function F that jit and the transformations, which keep it as a value, can call with arguments of these
/// types. Where it does not accept a number, it gets a scalar Array of it.
template <class F, class... Args>
concept CallableWith = !std::is_void_v<typename ParameterTypes<std::decay_t<F>&, Args...>::Types>;

}  // namespace lockstep

namespace lockstep::internal {

template <class F, class... Args>
using PassedTypes = std::type_identity<typename ParameterTypes<F, Args...>::Types>;

/// The argument as a P: unchanged, or a number as an Array.
template <class P, class A>
decltype(auto) passed(const A& argument) {
  if constexpr (std::is_same_v<P, A>)
    return (argument);
  else
    return array_of_number(argument);
}

}  // namespace lockstep::internal
