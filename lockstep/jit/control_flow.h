// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/jit/jit.h"
#include "lockstep/ops/ops.h"
#include "lockstep/tree/kinds.h"

/// Control flow under trace, with JAX's names and meanings: the functions are traced once, and values control
/// the execution when the program runs. Arguments, carries and results are trees. Functions may use arrays
/// from outside. Outside of a trace each call is traced anew and runs as a program of its own; if jit is
/// disabled, it is a C++ loop or choice that calls the functions with arrays. Errors name the user's line.
namespace lockstep {

struct ScanOptions {
  /// The number of steps; required if xs has no arrays.
  std::optional<std::int64_t> length = std::nullopt;

  /// Go from the last element to the first; each y is stored at the index of its x.
  bool reverse = false;

  /// The number of steps in the body of the compiled loop: more steps make a larger program with fewer
  /// iterations. Throws Error if below 1.
  std::int64_t unroll = 1;
};

namespace internal {

/// The initial counter of a loop from `first` to `last`: an i32 scalar, or an i64 if i32 cannot hold both.
Array counter(std::int64_t first, std::int64_t last);

/// Both bounds as scalars of the dtype to which they promote. Throws TraceError if one is not an integer
/// scalar, or no integer dtype holds both.
std::pair<Array, Array> loop_bounds(const Operand& lower, const Operand& upper);

/// The pair of the last carry and the ys. `function` takes a carry and an element, and returns a pair of a
/// carry and a y.
tree::AnyTree scan_of(const TreeFunction& function, tree::TreeRef init, tree::TreeRef xs,
                      const ScanOptions& options, const CallSite& site);

/// The last carry.
tree::AnyTree while_of(const TreeFunction& condition, const TreeFunction& body, tree::TreeRef init,
                       const CallSite& site);

/// The result of the branch number `index`; all branches return the same C++ type. `operation` ("cond",
/// "switch_") is for messages.
tree::AnyTree choice_of(const char* operation, const Operand& index, std::span<const TreeFunction> branches,
                        std::span<const tree::TreeRef> arguments);

template <class Functions, class... Args>
auto choose(const char* operation, const Operand& index, Functions branches, const Args&... args) {
  constexpr std::type_identity<std::tuple<Args...>> types;
  std::vector<TreeFunction> all;
  const std::array<tree::TreeRef, sizeof...(Args)> arguments{tree::tree_ref(args)...};
  if constexpr (tree::internal::is_vector<Functions>) {
    using Result = ResultType<typename Functions::value_type, std::tuple<Args...>>;
    for (auto& branch : branches) all.push_back(tree_function<Result>(branch, types));
    return choice_of(operation, index, all, arguments).template take<Result>();
  } else {
    using Result = ResultType<std::tuple_element_t<0, Functions>, std::tuple<Args...>>;
    auto add = [&](auto& branch) {
      static_assert(std::is_same_v<ResultType<std::decay_t<decltype(branch)>, std::tuple<Args...>>, Result>,
                    "all branches give one type");
      all.push_back(tree_function<Result>(branch, types));
    };
    std::apply([&](auto&... branch) { (add(branch), ...); }, branches);
    return choice_of(operation, index, all, arguments).template take<Result>();
  }
}

}  // namespace internal

/// (carry, y) = function(carry, x) for each element x along the first dimension of xs, one after the other,
/// starting with `init`. Returns the last carry and the ys, stacked along a new first dimension. It is one
/// loop in the program, whatever the number of steps, and has derivatives in both modes. Throws TraceError if
/// the carry changes its structure, shape or dtype, ShapeError if the arrays of xs differ in length, or if
/// there are none and `length` is not given.
///   auto [total, sums] = scan([](Array sum, Array x) { return std::pair(sum + x, sum); }, Array(0.f), xs);
template <class F, class Carry, class Xs>
auto scan(F&& function, const Carry& init, const Xs& xs, ScanOptions options = {},
          std::source_location where = std::source_location::current()) {
  using Function = std::decay_t<F>;
  constexpr std::type_identity<std::tuple<Carry, Xs>> types;
  using Result = internal::ResultType<Function, std::tuple<Carry, Xs>>;
  static_assert(tree::internal::is_tuple<Result> && std::tuple_size_v<Result> == 2,
                "the function of a scan gives a pair: the next carry and what is stacked");
  using Y = std::tuple_element_t<1, Result>;
  static_assert(std::is_same_v<std::tuple_element_t<0, Result>, Carry>,
                "the function of a scan gives, first, a carry of the type that it takes");
  Function own = function;
  return std::pair<Carry, Y>(internal::scan_of(internal::tree_function<std::pair<Carry, Y>>(own, types),
                                               tree::tree_ref(init), tree::tree_ref(xs), options,
                                               CallSite::from(where))
                                 .template take<std::pair<Carry, Y>>());
}

/// function(x) for each element along the first dimension of xs, one after the other, stacked: a scan without
/// a carry. vmap computes all of them at once, which takes more memory.
template <class F, class Xs>
auto map(F&& function, const Xs& xs, std::source_location where = std::source_location::current()) {
  auto step = [function = std::decay_t<F>(function)](std::tuple<>, Xs x) mutable {
    return std::pair(std::tuple<>(), function(std::move(x)));
  };
  return scan(std::move(step), std::tuple<>(), xs, {}, where).second;
}

/// While condition(carry), a bool scalar, is true: carry = body(carry). Returns the last carry. Only has a
/// forward derivative, because the number of steps is unknown. Throws TraceError if the condition's result is
/// not a bool scalar, or if the carry changes its structure, shape or dtype.
template <class Condition, class Body, class Carry>
Carry while_loop(Condition&& condition, Body&& body, const Carry& init,
                 std::source_location where = std::source_location::current()) {
  std::decay_t<Condition> go_on = condition;
  std::decay_t<Body> step = body;
  constexpr std::type_identity<std::tuple<Carry>> types;
  return internal::while_of(internal::tree_function<Array>(go_on, types),
                            internal::tree_function<Carry>(step, types), tree::tree_ref(init),
                            CallSite::from(where))
      .template take<Carry>();
}

/// carry = body(i, carry) for i from lower to upper - 1. If the bounds are C++ numbers, it is a scan with
/// derivatives in both modes, and i is an i32 scalar, or i64 if i32 cannot hold both bounds. If they are
/// arrays (integer scalars), it is a while_loop, and i has the dtype to which they promote. Throws as these
/// do.
template <std::integral Lower, std::integral Upper, class Body, class Carry>
Carry fori_loop(Lower lower, Upper upper, Body&& body, const Carry& init,
                std::source_location where = std::source_location::current()) {
  auto step = [function = std::decay_t<Body>(body)](std::pair<Array, Carry> at, std::tuple<>) mutable {
    Array next = at.first + 1;
    Carry carry = function(at.first, std::move(at.second));
    return std::pair(std::pair<Array, Carry>(std::move(next), std::move(carry)), std::tuple<>());
  };
  const auto first = static_cast<std::int64_t>(lower), last = static_cast<std::int64_t>(upper);
  return scan(std::move(step), std::pair<Array, Carry>(internal::counter(first, last), init), std::tuple<>(),
              {.length = last > first ? last - first : 0}, where)
      .first.second;
}
template <class Body, class Carry>
Carry fori_loop(const Operand& lower, const Operand& upper, Body&& body, const Carry& init,
                std::source_location where = std::source_location::current()) {
  using State = std::tuple<Array, Array, Carry>;
  CallSiteScope scope(CallSite::from(where));
  auto [first, end] = internal::loop_bounds(lower, upper);
  State last = while_loop([](const State& at) -> Array { return std::get<0>(at) < std::get<1>(at); },
                          [function = std::decay_t<Body>(body)](State at) mutable {
                            auto& [i, end, carry] = at;
                            Array next = i + 1;
                            Carry moved = function(i, std::move(carry));
                            return State(std::move(next), end, std::move(moved));
                          },
                          State(std::move(first), std::move(end), init), where);
  return std::get<2>(std::move(last));
}

/// on_true(args...) if the predicate, a bool scalar, is true, else on_false(args...); only that one runs.
/// Throws TraceError if the predicate is not a bool scalar, or if the two results differ in structure, shape
/// or dtype.
template <class True, class False, class... Args>
auto cond(const Operand& predicate, True&& on_true, False&& on_false, const Args&... args) {
  return internal::choose("cond", predicate,
                          std::tuple<std::decay_t<False>, std::decay_t<True>>(on_false, on_true), args...);
}

/// Calls the branch number `index` with args; branches are a std::tuple or std::vector of functions. An index
/// out of range is clamped. Throws as cond does, and if the index is not an integer scalar.
template <class Functions, class... Args>
auto switch_(const Operand& index, const Functions& branches, const Args&... args) {
  return internal::choose("switch_", index, branches, args...);
}

}  // namespace lockstep
