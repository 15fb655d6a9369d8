#pragma once

#include <array>
#include <cstddef>
#include <source_location>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/jit/derivative_depth.h"
#include "lockstep/jit/jit.h"

namespace lockstep {

namespace internal {

/// The outputs of the program and the cotangents of its inputs that `wrt` names, for a cotangent of 1 of its
/// first output, which must be a floating scalar. `inputs` are arrays of the current trace, the program's
/// captures included. Throws TraceError where the first output is not a floating scalar, and where an input
/// of `wrt` is not floating.
std::pair<std::vector<Array>, std::vector<Array>> differentiate(const Program& program,
                                                                const std::vector<Array>& inputs,
                                                                const std::vector<bool>& wrt,
                                                                const CallSite& site);

/// Which part of a loss function's result is the loss: the result itself, or its first element, the rest
/// being what is handed through (JAX's has_aux).
template <class T>
inline constexpr bool has_aux = tree::internal::is_tuple<T>;

template <std::size_t... argnums, class F, class... Args>
auto value_and_grad_in_trace(F& function, const CallSite& site, const Args&... args) {
  using Result = std::decay_t<std::invoke_result_t<F&, std::decay_t<Args>...>>;
  std::vector<Array> inputs;
  LeafOwners owners;
  (owners.add(args), ...);
  auto collect = [&](const auto& tree) {
    for (Array& leaf : tree::leaves(tree)) inputs.push_back(std::move(leaf));
  };
  (collect(args), ...);
  std::vector<bool> wrt;
  for (int owner : owners.owners) wrt.push_back(((owner == static_cast<int>(argnums)) || ...));

  Program program;
  Result result = [&] {
    DerivativeDepth once_more(DerivativeDepth::current() + 1);
    Trace trace("grad");
    std::tuple<std::decay_t<Args>...> tracers{as_tracers<std::decay_t<Args>>(trace, args)...};
    Result traced = std::apply([&](auto&... each) { return function(std::move(each)...); }, tracers);
    program = trace.finish(tree::leaves(traced));
    for (const Array& capture : trace.captures()) inputs.push_back(capture);
    return traced;
  }();
  wrt.resize(inputs.size());

  auto [outputs, grads] = differentiate(program, inputs, wrt, site);
  auto next_output = outputs.begin();
  tree::replace_leaves(result, next_output);

  // The gradients come in the order of the arguments.
  std::vector<std::vector<Array>> grads_of(sizeof...(Args));
  auto next_grad = grads.begin();
  for (std::size_t i = 0; i < owners.owners.size(); ++i) {
    if (wrt[i]) grads_of[static_cast<std::size_t>(owners.owners[i])].push_back(std::move(*next_grad++));
  }
  const std::tuple<const Args&...> all(args...);
  auto grad_of = [&]<std::size_t i>(std::integral_constant<std::size_t, i>) {
    auto copy = std::get<i>(all);
    auto next = grads_of[i].begin();
    tree::replace_leaves(copy, next);
    return copy;
  };
  if constexpr (sizeof...(argnums) == 1) {
    return std::pair(std::move(result), grad_of(std::integral_constant<std::size_t, argnums...>()));
  } else {
    return std::pair(std::move(result),
                     std::tuple(grad_of(std::integral_constant<std::size_t, argnums>())...));
  }
}

}  // namespace internal

/// A function that gives the pair of `function`'s value and its gradient with respect to argument 0, or to
/// the arguments `argnums`, as a tuple in their order: trees like those arguments. `function` gives a
/// floating scalar, or a pair or tuple whose first element is one; the rest is handed through and not
/// differentiated. A number that is an argument is traced as jit does it, and its gradient is an Array.
/// Outside of a trace each call traces anew; put it into jit() to call it often. Throws TraceError where the
/// value is no floating scalar, or an argument to differentiate holds integers.
template <std::size_t... argnums, class F>
auto value_and_grad(F&& function, std::source_location where = std::source_location::current()) {
  return [
    function = std::decay_t<F>(std::forward<F>(function)), site = CallSite::from(where)
  ]<class... Args>(const Args&... args) mutable requires internal::Takes<F, Args...> {
    auto body = [&function, site](const auto&... each) {
      if constexpr (sizeof...(argnums) == 0)
        return internal::value_and_grad_in_trace<0>(function, site, each...);
      else
        return internal::value_and_grad_in_trace<argnums...>(function, site, each...);
    };
    return internal::with_numbers_passed<std::decay_t<F>&>(
        [&](const auto&... each) { return internal::in_trace(body, "value_and_grad", site, each...); },
        args...);
  };
}

/// As value_and_grad, and gives the gradient only.
template <std::size_t... argnums, class F>
auto grad(F&& function, std::source_location where = std::source_location::current()) {
  return [both = value_and_grad<argnums...>(std::forward<F>(function), where)]<class... Args>(
      const Args&... args) mutable requires internal::Takes<F, Args...> {
    return both(args...).second;
  };
}

}  // namespace lockstep
