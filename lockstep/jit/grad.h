// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <source_location>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/jit/jit.h"
#include "lockstep/tree/kinds.h"

namespace lockstep {

namespace internal {

/// A function's value, and for each differentiated argument the arrays of its gradient.
struct ValueAndGrads {
  tree::AnyTree value;
  std::vector<std::vector<Array>> grads;
};
ValueAndGrads value_and_grad_of(const TreeFunction& function, std::span<const std::size_t> argnums,
                                const CallSite& site, std::span<const tree::TreeRef> arguments);

/// Whether a loss function's result is a tuple: then its first element is the loss, and the rest is auxiliary
/// data (JAX's has_aux).
template <class T>
inline constexpr bool has_aux = tree::internal::is_tuple<T>;

template <std::size_t... argnums, class F, class... P, class... Args>
auto call_value_and_grad(F& function, const CallSite& site, std::type_identity<std::tuple<P...>> types,
                         const Args&... args) {
  using Result = ResultType<F, std::tuple<P...>>;
  constexpr std::array<std::size_t, sizeof...(argnums)> numbers{argnums...};
  auto arguments = tree_arguments(types, args...);
  const std::vector<tree::TreeRef> refs = with_numbers_as_arrays(arguments);
  ValueAndGrads both = value_and_grad_of(tree_function<Result>(function, types), numbers, site, refs);
  auto grad_of = [&]<std::size_t i>(std::integral_constant<std::size_t, i>) {
    return tree::AnyTree::with_leaves(refs[i], both.grads[i])
        .template take<std::tuple_element_t<i, std::tuple<P...>>>();
  };
  if constexpr (sizeof...(argnums) == 1) {
    return std::pair(std::move(both.value).template take<Result>(),
                     grad_of(std::integral_constant<std::size_t, argnums...>()));
  } else {
    return std::pair(std::move(both.value).template take<Result>(),
                     std::tuple(grad_of(std::integral_constant<std::size_t, argnums>())...));
  }
}

}  // namespace internal

/// A function that returns the pair of `function`'s value and its gradient with respect to argument 0, or to
/// the arguments `argnums`, as a tuple in their order. Gradients are trees like the arguments. `function`
/// returns a floating scalar, or a pair or tuple whose first element is one; the rest is returned without
/// being differentiated. A number argument is traced as in jit, and its gradient is an Array. Outside of a
/// trace each call is traced anew; use jit() for functions that are called often. Throws TraceError if the
/// value is not a floating scalar, or a differentiated argument contains integers.
template <std::size_t... argnums, class F>
auto value_and_grad(F&& function, std::source_location where = std::source_location::current()) {
  return
      [ held = internal::Held<std::decay_t<F>>{std::forward<F>(function)},
        site = CallSite::from(where) ]<class... Args>(const Args&... args) requires CallableWith<F, Args...> {
    constexpr internal::PassedTypes<std::decay_t<F>&, Args...> types;
    if constexpr (sizeof...(argnums) == 0)
      return internal::call_value_and_grad<0>(held.function, site, types, args...);
    else
      return internal::call_value_and_grad<argnums...>(held.function, site, types, args...);
  };
}

/// Like value_and_grad, but returns only the gradient.
template <std::size_t... argnums, class F>
auto grad(F&& function, std::source_location where = std::source_location::current()) {
  return [both = value_and_grad<argnums...>(std::forward<F>(function), where)]<class... Args>(
      const Args&... args) requires CallableWith<F, Args...> {
    return both(args...).second;
  };
}

}  // namespace lockstep
