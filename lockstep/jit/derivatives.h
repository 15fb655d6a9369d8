#pragma once

#include <source_location>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/jit/grad.h"
#include "lockstep/jit/linear_map.h"
#include "lockstep/jit/vmap.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/shape.h"

/// Derivatives of functions of trees, forwards and backwards. Arrays of integers and bools among the
/// arguments are not differentiated, except where said; their tangents and cotangents are zeros of their own
/// dtype. A number that is an argument is traced as jit does it, and its derivative is an Array. Outside of a
/// trace each call traces anew; put it into jit() to call it often.
namespace lockstep {

/// function(primals...) and its derivative along the tangents: a pair. The tangents are trees like the
/// primals, of the same shapes and dtypes (ShapeError or DTypeError otherwise).
template <class F, class... Args>
auto jvp(F&& function, const std::tuple<Args...>& primals, const std::tuple<Args...>& tangents,
         std::source_location where = std::source_location::current()) {
  const CallSite site = CallSite::from(where);
  auto body = [&function, site, where](const auto& primals, const auto& tangents) {
    return std::apply(
        [&](const auto&... args) {
          auto [result, map] = internal::linearized<true>(function, "jvp", site, args...);
          auto tangent = map(tangents, where);
          return std::pair(std::move(result), std::move(tangent));
        },
        primals);
  };
  constexpr internal::PassedTypes<std::remove_reference_t<F>&, Args...> types;
  return internal::in_trace(body, "jvp", site, internal::all_passed(types, primals),
                            internal::all_passed(types, tangents));
}

/// function(args...), and a function from a cotangent (a tree like the result) to the tuple of the arguments'
/// cotangents. What the backward pass needs is computed once.
template <class F, class... Args>
auto vjp(F&& function, const Args&... args) {
  return internal::with_numbers_passed<std::remove_reference_t<F>&>(
      [&](const auto&... each) {
        return internal::linearized<false>(function, "vjp", CallSiteScope::current(), each...);
      },
      args...);
}

/// function(args...), and its derivative at args as a function from the tuple of the arguments' tangents to
/// the result's tangent. What it needs is computed once.
template <class F, class... Args>
auto linearize(F&& function, const Args&... args) {
  return internal::with_numbers_passed<std::remove_reference_t<F>&>(
      [&](const auto&... each) {
        return internal::linearized<true>(function, "linearize", CallSiteScope::current(), each...);
      },
      args...);
}

/// A function that gives the Jacobian of `function`: for each array of the result and the array that is
/// argument `argnum`, an array of the result's shape followed by the argument's. Either the result or the
/// argument may be a tree; the Jacobian is then a tree like it. jacfwd pushes a tangent for each element of
/// the argument forwards, jacrev pulls a cotangent for each element of the result back. Throws TraceError
/// where the argument is not floating.
template <std::size_t argnum = 0, class F>
auto jacfwd(F&& function, std::source_location where = std::source_location::current()) {
  return [
    function = std::decay_t<F>(std::forward<F>(function)), site = CallSite::from(where)
  ]<class... Args>(const Args&... args) mutable requires internal::Takes<F, Args...> {
    auto body = [&function, site](const auto&... each) {
      using Argument = std::decay_t<std::tuple_element_t<argnum, std::tuple<decltype(each)...>>>;
      const Argument& x = std::get<argnum>(std::tie(each...));
      auto of_argument = internal::of_one_argument<argnum>(function, each...);
      for (const Array& leaf : tree::leaves(x)) internal::check_differentiable("jacfwd", leaf, site);
      auto [result, push] = internal::linearized<true>(of_argument, "jacfwd", site, x);
      const std::vector<Array> inputs = tree::leaves(x), outputs = tree::leaves(result);
      // For each leaf of the argument, the Jacobians of all leaves of the result.
      std::vector<std::vector<Array>> columns;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        auto along = [&](const Array& direction) {
          std::vector<Array> tangents;
          for (const Array& leaf : inputs) tangents.push_back(zeros_like(leaf));
          tangents[i] = direction;
          return tree::leaves(push(std::tuple<Argument>(internal::with_leaves(x, tangents))));
        };
        std::vector<Array> pushed = vmap(along, {.out_axes = -1})(internal::basis(inputs[i]));
        for (std::size_t o = 0; o < outputs.size(); ++o) {
          pushed[o] = reshape(pushed[o], internal::joined(outputs[o].shape(), inputs[i].shape()));
        }
        columns.push_back(std::move(pushed));
      }
      if constexpr (std::is_same_v<Argument, Array>) {
        return internal::with_leaves(result, columns[0]);
      } else {
        static_assert(
            std::is_same_v<std::decay_t<decltype(result)>, Array>,
            "the Jacobian of a tree by a tree is no C++ type: differentiate one array by a tree, or a "
            "tree by one array");
        std::vector<Array> each_leaf;
        for (auto& column : columns) each_leaf.push_back(column[0]);
        return internal::with_leaves(x, each_leaf);
      }
    };
    return internal::with_numbers_passed<std::decay_t<F>&>(
        [&](const auto&... each) { return internal::in_trace(body, "jacfwd", site, each...); }, args...);
  };
}

template <std::size_t argnum = 0, class F>
auto jacrev(F&& function, std::source_location where = std::source_location::current()) {
  return [
    function = std::decay_t<F>(std::forward<F>(function)), site = CallSite::from(where)
  ]<class... Args>(const Args&... args) mutable requires internal::Takes<F, Args...> {
    auto body = [&function, site](const auto&... each) {
      using Argument = std::decay_t<std::tuple_element_t<argnum, std::tuple<decltype(each)...>>>;
      const Argument& x = std::get<argnum>(std::tie(each...));
      auto of_argument = internal::of_one_argument<argnum>(function, each...);
      for (const Array& leaf : tree::leaves(x)) internal::check_differentiable("jacrev", leaf, site);
      auto [result, pull] = internal::linearized<false>(of_argument, "jacrev", site, x);
      using Result = std::decay_t<decltype(result)>;
      const std::vector<Array> inputs = tree::leaves(x), outputs = tree::leaves(result);
      // For each leaf of the result, its Jacobians by all leaves of the argument.
      std::vector<std::vector<Array>> rows;
      for (std::size_t o = 0; o < outputs.size(); ++o) {
        internal::check_differentiable("jacrev", outputs[o], site);
        auto back = [&](const Array& direction) {
          std::vector<Array> cotangents;
          for (const Array& leaf : outputs) cotangents.push_back(zeros_like(leaf));
          cotangents[o] = direction;
          return tree::leaves(std::get<0>(pull(internal::with_leaves(result, cotangents))));
        };
        std::vector<Array> pulled = vmap(back)(internal::basis(outputs[o]));
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          pulled[i] = reshape(pulled[i], internal::joined(outputs[o].shape(), inputs[i].shape()));
        }
        rows.push_back(std::move(pulled));
      }
      if constexpr (std::is_same_v<Result, Array>) {
        return internal::with_leaves(x, rows[0]);
      } else {
        static_assert(
            std::is_same_v<Argument, Array>,
            "the Jacobian of a tree by a tree is no C++ type: differentiate one array by a tree, or a "
            "tree by one array");
        std::vector<Array> each_leaf;
        for (auto& row : rows) each_leaf.push_back(row[0]);
        return internal::with_leaves(result, each_leaf);
      }
    };
    return internal::with_numbers_passed<std::decay_t<F>&>(
        [&](const auto&... each) { return internal::in_trace(body, "jacrev", site, each...); }, args...);
  };
}

/// A function that gives the second derivatives of `function`, of an array by the array that is argument
/// `argnum`: the result's shape followed by twice the argument's.
template <std::size_t argnum = 0, class F>
auto hessian(F&& function, std::source_location where = std::source_location::current()) {
  return jacfwd<argnum>(jacrev<argnum>(std::forward<F>(function), where), where);
}

}  // namespace lockstep
