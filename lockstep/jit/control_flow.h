#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <source_location>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/jit/nested_call.h"
#include "lockstep/ops/ops.h"

/// Control flow under trace, with JAX's names and meaning: the functions are traced once, and values decide
/// when the program runs. Arguments, carries and results are trees. Arrays from outside that a function uses
/// are taken in. Each also runs outside of a trace, as a program of its own, traced anew by each call; where
/// jit is disabled, as a loop or choice of C++ that calls the functions with arrays. Errors name the user's
/// line.
namespace lockstep {

struct ScanOptions {
  /// The number of steps; needed where xs holds no array.
  std::optional<std::int64_t> length = std::nullopt;

  /// From the last element to the first; the ys stand where their xs do.
  bool reverse = false;
};

namespace internal {

/// One call of scan: what its xs are.
class ScanXs {
 public:
  ScanXs(const TreeOutline& outline, std::vector<Array> xs, const ScanOptions& options, const CallSite& site);
  std::vector<Array> tracers(Trace& trace) const;
  std::vector<Array> emit(TracedProgram body, const LoopCarry& carry) const;
  std::int64_t length() const { return length_; }

  /// Where there is no trace: what step number `step` gets, and the ys of all steps in its order.
  std::vector<Array> of_step(std::int64_t step) const;
  std::vector<Array> stacked_ys(std::vector<std::vector<Array>> ys_of_steps) const;

 private:
  std::vector<Array> xs_;
  std::int64_t length_ = 0;
  bool reverse_;
};

/// The counter of a loop from `first` to `last`, at its start: an i32 scalar, an i64 where i32 does not hold
/// both.
Array counter(std::int64_t first, std::int64_t last);

/// Both bounds as scalars of the dtype that they promote to. Throws TraceError where one is no integer
/// scalar, or no integer dtype holds both.
std::pair<Array, Array> loop_bounds(const Operand& lower, const Operand& upper);

/// The operand of cond_p that tells the branch: an i32 scalar, clamped. Throws TraceError unless `index` is a
/// bool scalar (cond), an integer scalar (switch_).
Array branch_index(const char* operation, const Array& index, std::size_t branches, const CallSite& site);

/// Branches for the same operands; the results of the one that `index` tells. Throws TraceError where they
/// give different structures, shapes or dtypes, showing both and the path.
class Branches {
 public:
  Branches(std::string operation, Array index, std::vector<Array> operands, const CallSite& site);

  std::vector<Array> tracers(Trace& trace) const;
  void add(TreeOutline outline, Trace& trace, const std::vector<Array>& results);
  std::vector<Array> emit();

 private:
  std::string operation_;
  Array index_;
  std::vector<Array> operands_;
  CallSite site_;
  std::vector<TracedProgram> branches_;
  std::vector<TreeOutline> outlines_;
};

template <class F, class Carry, class Xs>
auto scan_in_trace(F& function, const Carry& init, const Xs& xs, const ScanOptions& options,
                   const CallSite& site) {
  using Result = std::decay_t<std::invoke_result_t<F&, Carry, Xs>>;
  static_assert(tree::internal::is_tuple<Result> && std::tuple_size_v<Result> == 2,
                "the function of a scan gives a pair: the next carry and what is stacked");
  using Y = std::tuple_element_t<1, Result>;
  static_assert(std::is_same_v<std::tuple_element_t<0, Result>, Carry>,
                "the function of a scan gives, first, a carry of the type that it takes");
  LoopCarry carry("scan", outline(init, "carry"), tree::leaves(init), site);
  const ScanXs elements(outline(xs, "xs"), tree::leaves(xs), options, site);
  for (;;) {
    TracedProgram body;
    std::optional<Y> ys;
    {
      Trace trace("scan");
      Carry before = with_leaves(init, carry.tracers(trace));
      Xs element = with_leaves(xs, elements.tracers(trace));
      Result result = function(std::move(before), std::move(element));
      std::vector<Array> outputs = tree::leaves(std::get<0>(result));
      if (!carry.settle(outline(std::get<0>(result), "carry"), outputs)) continue;
      for (Array& y : tree::leaves(std::get<1>(result))) outputs.push_back(std::move(y));
      body = {trace.finish(outputs), trace.captures()};
      ys = std::move(std::get<1>(result));
    }
    CallSiteScope scope(site);
    const std::vector<Array> results = elements.emit(std::move(body), carry);
    auto next = results.begin();
    Carry last = init;
    tree::replace_leaves(last, next);
    tree::replace_leaves(*ys, next);
    return std::pair<Carry, Y>(std::move(last), std::move(*ys));
  }
}

/// Where jit is disabled: a loop that calls the function. Nothing of a scan of no steps, which must be traced
/// to know what its ys are.
template <class F, class Carry, class Xs>
auto scan_untraced(F& function, const Carry& init, const Xs& xs, const ScanOptions& options,
                   const CallSite& site) {
  using Result = std::decay_t<std::invoke_result_t<F&, Carry, Xs>>;
  using Y = std::tuple_element_t<1, Result>;
  const ScanXs elements(outline(xs, "xs"), tree::leaves(xs), options, site);
  Carry carry = init;
  std::optional<Y> ys;
  std::vector<std::vector<Array>> of_steps;
  for (std::int64_t step = 0; step < elements.length(); ++step) {
    Xs element = [&] {
      CallSiteScope scope(site);
      return with_leaves(xs, elements.of_step(step));
    }();
    Result result = function(std::move(carry), std::move(element));
    carry = std::move(std::get<0>(result));
    of_steps.push_back(tree::leaves(std::get<1>(result)));
    ys = std::move(std::get<1>(result));
  }
  using Both = std::pair<Carry, Y>;
  if (!ys) return std::optional<Both>();
  CallSiteScope scope(site);
  return std::optional<Both>(
      Both(std::move(carry), with_leaves(*ys, elements.stacked_ys(std::move(of_steps)))));
}

/// The value of a condition, of a branch's index, outside of traces. Throws TraceError as check_predicate
/// does.
bool condition_holds(const char* operation, const Array& condition, const CallSite& site);
std::size_t branch_number(const char* operation, const Array& index, std::size_t branches,
                          const CallSite& site);

template <class Condition, class Body, class Carry>
Carry while_in_trace(const char* operation, Condition& condition, Body& function, const Carry& init,
                     const CallSite& site) {
  auto go_on = [&](const std::vector<Array>& carry) { return condition(with_leaves(init, carry)); };
  auto step = [&](const std::vector<Array>& carry) {
    const Carry result = function(with_leaves(init, carry));
    return std::pair(outline(result, "carry"), tree::leaves(result));
  };
  return with_leaves(
      init, while_of_arrays(operation, outline(init, "carry"), tree::leaves(init), go_on, step, site));
}

template <class... Args>
void add_branch(Branches& all, auto& function, auto& result, const Args&... args) {
  Trace trace("branch");
  const std::vector<Array> tracers = all.tracers(trace);
  auto next = tracers.begin();
  std::tuple<Args...> given(args...);
  std::apply([&](auto&... each) { (tree::replace_leaves(each, next), ...); }, given);
  result = std::apply([&](auto&... each) { return function(std::move(each)...); }, given);
  all.add(outline(*result, "result"), trace, tree::leaves(*result));
}

template <class Functions, class... Args>
auto switch_in_trace(const char* operation, const Array& index, Functions& branches, const CallSite& site,
                     const Args&... args) {
  auto first = [&]() -> auto& {
    if constexpr (tree::internal::is_vector<Functions>)
      return branches.front();
    else
      return std::get<0>(branches);
  };
  using Result = std::decay_t<std::invoke_result_t<decltype(first()), Args...>>;
  std::optional<Result> result;
  Branches all(operation, index, all_leaves(args...), site);
  auto add = [&](auto& function) {
    static_assert(std::is_same_v<std::decay_t<std::invoke_result_t<decltype(function), Args...>>, Result>,
                  "all branches give one type");
    add_branch(all, function, result, args...);
  };
  if constexpr (tree::internal::is_vector<Functions>) {
    for (auto& branch : branches) add(branch);
  } else {
    std::apply([&](auto&... branch) { (add(branch), ...); }, branches);
  }
  CallSiteScope scope(site);
  return with_leaves(*result, all.emit());
}

template <class Functions, class... Args>
auto switch_untraced(const char* operation, const Array& index, Functions branches, const CallSite& site,
                     const Args&... args) {
  if constexpr (tree::internal::is_vector<Functions>) {
    return branches[branch_number(operation, index, branches.size(), site)](args...);
  } else {
    using Result = std::decay_t<std::invoke_result_t<std::tuple_element_t<0, Functions>&, Args...>>;
    std::size_t skip = branch_number(operation, index, std::tuple_size_v<Functions>, site);
    std::optional<Result> result;
    auto call = [&](auto& branch) {
      if (skip-- == 0) result.emplace(branch(args...));
    };
    std::apply([&](auto&... branch) { (call(branch), ...); }, branches);
    return std::move(*result);
  }
}

template <class Functions, class... Args>
auto choose(const char* operation, const Operand& index, const Functions& branches, const Args&... args) {
  const CallSite site = index.site();
  if (jit_is_disabled()) return switch_untraced(operation, index.as_array(), branches, site, args...);
  auto body = [operation, branches = Functions(branches), site](const Array& which,
                                                                const Args&... each) mutable {
    return switch_in_trace(operation, which, branches, site, each...);
  };
  return run_traced(operation, site, body, index.as_array(), args...);
}

}  // namespace internal

/// (carry, y) = function(carry, x), for each element x of xs' leading dimension, one after the other,
/// starting with `init`. Gives the last carry and the ys, stacked along a new leading dimension. It is one
/// loop in the program, however many steps there are, and has derivatives both ways. Throws TraceError where
/// the carry changes its structure, shape or dtype, ShapeError where xs differ in length, or have none and
/// `length` is not given.
///   auto [total, sums] = scan([](Array sum, Array x) { return std::pair(sum + x, sum); }, Array(0.f), xs);
template <class F, class Carry, class Xs>
auto scan(F&& function, const Carry& init, const Xs& xs, ScanOptions options = {},
          std::source_location where = std::source_location::current()) {
  const CallSite site = CallSite::from(where);
  if (internal::jit_is_disabled()) {
    std::decay_t<F> own = function;
    if (auto done = internal::scan_untraced(own, init, xs, options, site)) return *std::move(done);
  }
  auto body = [function = std::decay_t<F>(function), options, site](const Carry& init, const Xs& xs) mutable {
    return internal::scan_in_trace(function, init, xs, options, site);
  };
  return internal::run_traced("scan", site, body, init, xs);
}

/// function(x) for each element of xs' leading dimension, one after the other, stacked: a scan without a
/// carry. vmap does them all at once, with more memory.
template <class F, class Xs>
auto map(F&& function, const Xs& xs, std::source_location where = std::source_location::current()) {
  auto step = [function = std::decay_t<F>(function)](std::tuple<>, Xs x) mutable {
    return std::pair(std::tuple<>(), function(std::move(x)));
  };
  return scan(std::move(step), std::tuple<>(), xs, {}, where).second;
}

/// While condition(carry), a bool scalar: carry = body(carry). Gives the last carry. Has a derivative
/// forwards only: nobody knows how often it runs. Throws TraceError where the condition gives something else,
/// and where the carry changes its structure, shape or dtype.
template <class Condition, class Body, class Carry>
Carry while_loop(Condition&& condition, Body&& body, const Carry& init,
                 std::source_location where = std::source_location::current()) {
  const CallSite site = CallSite::from(where);
  if (internal::jit_is_disabled()) {
    std::decay_t<Condition> go_on = condition;
    std::decay_t<Body> step = body;
    Carry carry = init;
    while (internal::condition_holds("while_loop", go_on(Carry(carry)), site)) carry = step(std::move(carry));
    return carry;
  }
  auto loop = [condition = std::decay_t<Condition>(condition), function = std::decay_t<Body>(body),
               site](const Carry& init) mutable {
    return internal::while_in_trace("while_loop", condition, function, init, site);
  };
  return internal::run_traced("while_loop", site, loop, init);
}

/// carry = body(i, carry) for i from lower to upper - 1. With bounds that are C++ numbers it is a scan and
/// has derivatives both ways, and i is an i32 scalar, or i64 where i32 does not hold both bounds. With
/// arrays, integer scalars, it is a while_loop, and i has the dtype that they promote to. As those it throws.
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

/// on_true(args...) where the predicate, a bool scalar, is true, else on_false(args...); only that one runs.
/// Throws TraceError where the predicate is something else, or the two give different structures, shapes or
/// dtypes.
template <class True, class False, class... Args>
auto cond(const Operand& predicate, True&& on_true, False&& on_false, const Args&... args) {
  return internal::choose("cond", predicate,
                          std::tuple<std::decay_t<False>, std::decay_t<True>>(on_false, on_true), args...);
}

/// The `index`-th of the branches, a std::tuple or std::vector of functions, called with args; an index out
/// of range is taken as the nearest. Throws as cond, and where the index is no integer scalar.
template <class Functions, class... Args>
auto switch_(const Operand& index, const Functions& branches, const Args&... args) {
  return internal::choose("switch_", index, branches, args...);
}

}  // namespace lockstep
