// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <source_location>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/jit/grad.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/linear_map.h"
#include "lockstep/jit/vmap.h"

/// Derivatives of functions of trees, in forward and reverse mode. Integer and bool arrays among the
/// arguments are not differentiated, unless stated otherwise; their tangents and cotangents are zeros of
/// their own dtype. A number argument is traced as in jit, and its derivative is an Array. Outside of a trace
/// each call is traced anew; use jit() for functions that are called often.
namespace lockstep {

namespace internal {

struct JvpResult {
  tree::AnyTree result;
  std::vector<Array> tangents;  ///< of the result's arrays
};
JvpResult jvp_of(const TreeFunction& function, std::span<const tree::TreeRef> primals,
                 const std::vector<Array>& tangents, const CallSite& site);

/// The Jacobians of each array of the result with respect to each array of the argument.
struct Jacobian {
  tree::AnyTree result;  ///< for its structure
  std::vector<std::vector<Array>> by;
};
Jacobian jacfwd_of(const TreeFunction& function, std::span<const tree::TreeRef> arguments, std::size_t argnum,
                   const CallSite& site);
Jacobian jacrev_of(const TreeFunction& function, std::span<const tree::TreeRef> arguments, std::size_t argnum,
                   const CallSite& site);

/// As a tree with the structure of the result, or of the argument.
template <class Result, class Argument>
auto as_tree(Jacobian jacobian, tree::TreeRef argument) {
  if constexpr (std::is_same_v<Argument, Array>) {
    std::vector<Array> of_each;
    for (const std::vector<Array>& row : jacobian.by) of_each.push_back(row.front());
    jacobian.result->replace_leaves(of_each);
    return std::move(jacobian.result).template take<Result>();
  } else {
    static_assert(std::is_same_v<Result, Array>,
                  "the Jacobian of a tree by a tree is no C++ type: differentiate one array by a tree, or a "
                  "tree by one array");
    return tree::AnyTree::with_leaves(argument, jacobian.by.front()).template take<Argument>();
  }
}

template <std::size_t argnum, class F, class... P, class... Args>
auto call_jacobian(auto of, F& function, const CallSite& site, std::type_identity<std::tuple<P...>> types,
                   const Args&... args) {
  using Result = ResultType<F, std::tuple<P...>>;
  auto arguments = tree_arguments(types, args...);
  const std::vector<tree::TreeRef> refs = with_numbers_as_arrays(arguments);
  return as_tree<Result, std::tuple_element_t<argnum, std::tuple<P...>>>(
      of(tree_function<Result>(function, types), refs, argnum, site), refs[argnum]);
}

template <class F, class... P, class... Args>
auto call_jvp(F& function, const CallSite& site, std::type_identity<std::tuple<P...>> types,
              const std::tuple<Args...>& primals, const std::tuple<Args...>& tangents) {
  using Result = ResultType<F, std::tuple<P...>>;
  auto arguments_of = [&](const Args&... each) { return tree_arguments(types, each...); };
  auto arguments = std::apply(arguments_of, primals), directions = std::apply(arguments_of, tangents);
  JvpResult both = jvp_of(tree_function<Result>(function, types), with_numbers_as_arrays(arguments),
                          all_leaves(with_numbers_as_arrays(directions)), site);
  auto result = std::move(both.result).template take<Result>();
  Result tangent = result;
  tree::tree_ref(tangent).replace_leaves(both.tangents);
  return std::pair<Result, Result>(std::move(result), std::move(tangent));
}

template <bool forwards, class F, class... P, class... Args>
auto call_linearized(F& function, std::string_view operation, std::type_identity<std::tuple<P...>> types,
                     const Args&... args) {
  using Result = ResultType<F, std::tuple<P...>>;
  using Arguments = std::tuple<P...>;
  auto arguments = tree_arguments(types, args...);
  const std::vector<tree::TreeRef> refs = with_numbers_as_arrays(arguments);
  Linearized both =
      linearized(tree_function<Result>(function, types), forwards, operation, CallSiteScope::current(), refs);
  auto result = std::move(both.result).template take<Result>();
  if constexpr (forwards) {
    LinearMap<Arguments, Result> map(std::move(both.derivative), result);
    return std::pair(std::move(result), std::move(map));
  } else {
    LinearMap<Result, Arguments> map(std::move(both.derivative), Arguments(passed<P>(args)...));
    return std::pair(std::move(result), std::move(map));
  }
}

}  // namespace internal

/// The pair of function(primals...) and its derivative along the tangents. The tangents are trees like the
/// primals, with the same shapes and dtypes (ShapeError or DTypeError otherwise).
template <class F, class... Args>
auto jvp(F&& function, const std::tuple<Args...>& primals, const std::tuple<Args...>& tangents,
         std::source_location where = std::source_location::current()) {
  return internal::call_jvp(function, CallSite::from(where),
                            internal::PassedTypes<std::remove_reference_t<F>&, Args...>(), primals, tangents);
}

/// The pair of function(args...) and a function from a cotangent (a tree like the result) to the tuple of the
/// arguments' cotangents. The values that the backward pass needs are computed once.
template <class F, class... Args>
auto vjp(F&& function, const Args&... args) {
  return internal::call_linearized<false>(
      function, "vjp", internal::PassedTypes<std::remove_reference_t<F>&, Args...>(), args...);
}

/// The pair of function(args...) and its derivative at args, a function from the tuple of the arguments'
/// tangents to the result's tangent. The values that it needs are computed once.
template <class F, class... Args>
auto linearize(F&& function, const Args&... args) {
  return internal::call_linearized<true>(
      function, "linearize", internal::PassedTypes<std::remove_reference_t<F>&, Args...>(), args...);
}

/// A function that returns the Jacobian of `function`: for each array of the result and the array that is
/// argument `argnum`, an array with the result's shape followed by the argument's. Either the result or the
/// argument may be a tree; the Jacobian is then a tree with its structure. jacfwd computes a forward
/// derivative for each element of the argument, jacrev a reverse derivative for each element of the result.
/// Throws TraceError if the argument is not floating.
template <std::size_t argnum = 0, class F>
auto jacfwd(F&& function, std::source_location where = std::source_location::current()) {
  return
      [ held = internal::Held<std::decay_t<F>>{std::forward<F>(function)},
        site = CallSite::from(where) ]<class... Args>(const Args&... args) requires CallableWith<F, Args...> {
    return internal::call_jacobian<argnum>(&internal::jacfwd_of, held.function, site,
                                           internal::PassedTypes<std::decay_t<F>&, Args...>(), args...);
  };
}

template <std::size_t argnum = 0, class F>
auto jacrev(F&& function, std::source_location where = std::source_location::current()) {
  return
      [ held = internal::Held<std::decay_t<F>>{std::forward<F>(function)},
        site = CallSite::from(where) ]<class... Args>(const Args&... args) requires CallableWith<F, Args...> {
    return internal::call_jacobian<argnum>(&internal::jacrev_of, held.function, site,
                                           internal::PassedTypes<std::decay_t<F>&, Args...>(), args...);
  };
}

/// A function that returns the second derivative of `function`, from the array that is argument `argnum` to
/// an array, with the result's shape followed by the argument's shape twice.
template <std::size_t argnum = 0, class F>
auto hessian(F&& function, std::source_location where = std::source_location::current()) {
  return jacfwd<argnum>(jacrev<argnum>(std::forward<F>(function), where), where);
}

}  // namespace lockstep
