// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <source_location>
#include <utility>

#include "lockstep/jit/grad.h"

namespace lockstep::sparse {

/// A sparse array of any format.
template <class T>
concept SparseArray = requires(const T& x, const typename T::Values& values) {
  { x.with_values(values) } -> std::same_as<T>;
};

/// A function that returns the pair of `function`'s value and its gradient with respect to its first
/// argument, a sparse array: one with the same indices, whose data is the gradient with respect to the data,
/// as jax.experimental.sparse.value_and_grad. It throws as lockstep::value_and_grad does.
template <class F>
auto value_and_grad(F&& function, std::source_location where = std::source_location::current()) {
  return [ function = std::forward<F>(function),
           where ]<SparseArray M, class... Args>(const M& matrix, const Args&... args) {
    using Values = typename M::Values;
    auto both = lockstep::value_and_grad<0>(
        [&](const Values& values) { return function(matrix.with_values(values), args...); },
        where)(matrix.values());
    return std::pair(std::move(both.first), matrix.with_values(both.second));
  };
}

/// Like value_and_grad, but returns only the gradient.
template <class F>
auto grad(F&& function, std::source_location where = std::source_location::current()) {
  return [both = value_and_grad(std::forward<F>(function), where)]<SparseArray M, class... Args>(
      const M& matrix, const Args&... args) {
    return both(matrix, args...).second;
  };
}

}  // namespace lockstep::sparse
