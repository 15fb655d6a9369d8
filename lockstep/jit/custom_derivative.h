#pragma once

#include "lockstep/jit/derivative_depth.h"
#include "lockstep/jit/nested_call.h"

/// Derivatives that the user gives, for functions of which the derivative of each operation is not what is
/// wanted: unstable, slow, or not there.
namespace lockstep {

namespace internal {

/// Operations of the current trace.
std::vector<Array> emit_custom_jvp(TracedProgram function, TracedProgram rule,
                                   const std::vector<Array>& arguments);
std::vector<Array> emit_custom_vjp(TracedProgram function, TracedProgram forward, TracedProgram backward,
                                   const std::vector<Array>& arguments);

/// Zeros, in the current trace.
Array zeros_of(const Aval& aval);

/// Throws TraceError where what a rule gives as the result is not of the function's structure, shapes and
/// dtypes.
void check_same_types(const std::string& what, const TreeOutline& expected, const std::vector<Aval>& avals,
                      const TreeOutline& given, const std::vector<Aval>& given_avals, const CallSite& site);

/// The arguments' cotangents as a tuple, where a rule for one argument may give it alone.
template <class... Args, class Given>
std::tuple<Args...> as_arguments(Given given) {
  return std::tuple<Args...>(std::move(given));
}

/// A copy of the tree with a new tracer for each inexact array, as its tangent or cotangent. An integer's is
/// zeros of its own dtype, which nobody reads.
template <class Tree>
Tree tangent_tracers(Trace& trace, const Tree& tree) {
  Tree copy = tree;
  tree::for_each_leaf(copy, [&](Array& array) {
    array = is_inexact(array.dtype()) ? trace.input(array.aval()) : zeros_of(array.aval());
  });
  return copy;
}

/// The arrays of `tangents` that belong to inexact arrays of `values`, each made of that one's type. Throws
/// TraceError where structure, shape or dtype differ, showing both and the path; `what` names the rule.
std::vector<Array> checked_tangents(const std::string& what, const TreeOutline& expected,
                                    const std::vector<Array>& values, const TreeOutline& given,
                                    const std::vector<Array>& tangents, const CallSite& site);

/// The function where nothing is differentiated: its rule is not looked at.
template <class F, class... Args>
auto call_plain(F& function, const Args&... args) -> std::decay_t<std::invoke_result_t<F&, Args...>> {
  return function(Args(args)...);
}

/// The function's program, of which no derivative is ever taken: its rule gives that.
template <class F, class... Args>
auto trace_plain(const char* name, F& function, TracedProgram& plain, const Args&... args) {
  DerivativeDepth none(0);
  return trace_function(name, function, plain, args...);
}

template <class F, class Rule, class... Args>
auto custom_jvp_in_trace(F& function, Rule& rule, const CallSite& site, const Args&... args) {
  TracedProgram plain, with_rule;
  auto result = trace_plain("custom_jvp", function, plain, args...);
  const std::vector<Aval> avals = plain.program.output_avals();
  {
    DerivativeDepth within(DerivativeDepth::current() - 1);
    Trace trace("custom_jvp_rule");
    std::tuple<Args...> primals{as_tracers<Args>(trace, args)...};
    std::tuple<Args...> tangents = tangent_tracers(trace, primals);
    auto [value, tangent] = rule(std::move(primals), std::move(tangents));
    const TreeOutline expected = outline(result, "result");
    std::vector<Array> values = tree::leaves(value);
    std::vector<Aval> value_avals;
    for (const Array& each : values) value_avals.push_back(each.aval());
    check_same_types("custom_jvp", expected, avals, outline(value, "result"), value_avals, site);
    for (Array& each : checked_tangents("custom_jvp", expected, values, outline(tangent, "result"),
                                        tree::leaves(tangent), site))
      values.push_back(std::move(each));
    with_rule = {trace.finish(values), trace.captures()};
  }
  CallSiteScope scope(site);
  return with_leaves(result, emit_custom_jvp(std::move(plain), std::move(with_rule), all_leaves(args...)));
}

template <class F, class Forward, class Backward, class... Args>
auto custom_vjp_in_trace(F& function, Forward& forward, Backward& backward, const CallSite& site,
                         const Args&... args) {
  TracedProgram plain, first, second;
  auto result = trace_plain("custom_vjp", function, plain, args...);
  DerivativeDepth within(DerivativeDepth::current() - 1);
  auto both = trace_function("custom_vjp_forward", forward, first, args...);
  const std::vector<Aval> avals = plain.program.output_avals(), first_avals = first.program.output_avals();
  check_same_types(
      "custom_vjp, forward", outline(result, "result"), avals, outline(std::get<0>(both), "result"),
      {first_avals.begin(),
       first_avals.begin() + static_cast<std::ptrdiff_t>(tree::leaves(std::get<0>(both)).size())},
      site);
  {
    Trace trace("custom_vjp_backward");
    std::size_t next = avals.size();
    auto residuals = std::get<1>(both);
    tree::for_each_leaf(residuals, [&](Array& array) { array = trace.input(first_avals[next++]); });
    auto cotangents = result;
    next = 0;
    tree::for_each_leaf(cotangents, [&](Array& array) {
      const Aval& aval = avals[next++];
      array = is_inexact(aval.dtype) ? trace.input(aval) : zeros_of(aval);
    });
    const std::tuple<Args...> gradients =
        as_arguments<Args...>(backward(std::move(residuals), std::move(cotangents)));
    const std::vector<Array> arguments = all_leaves(args...);
    second.program = trace.finish(
        checked_tangents("custom_vjp, backward", outline(std::tuple<Args...>(args...), "argument"), arguments,
                         outline(gradients, "argument"), tree::leaves(gradients), site));
    second.captures = trace.captures();
  }
  CallSiteScope scope(site);
  return with_leaves(
      result, emit_custom_vjp(std::move(plain), std::move(first), std::move(second), all_leaves(args...)));
}

}  // namespace internal

/// A function that does what `function` does, with a derivative of the user's own, forwards and so backwards:
/// rule(arguments, tangents), each a std::tuple of trees like the arguments, gives the pair of the result and
/// its tangent, a tree like the result. The tangent must be linear in the tangents. Arrays from outside are
/// taken as constants, in which it cannot be differentiated. The rule is called only where the function is
/// differentiated, and may call the function that it belongs to. Throws TraceError, there, where the rule
/// gives something else.
///   auto f = custom_jvp([](Array x) { return log(1 + exp(x)); },
///                       [](std::tuple<Array> x, std::tuple<Array> t) { ... return std::pair(y, dy); });
template <class F, class Rule>
auto custom_jvp(F&& function, Rule&& rule, std::source_location where = std::source_location::current()) {
  return [
    function = std::decay_t<F>(function), rule = std::decay_t<Rule>(rule), site = CallSite::from(where)
  ]<class... Args>(const Args&... args) mutable requires internal::Takes<F, Args...> {
    auto body = [&function, &rule, site](const auto&... each) {
      if (internal::DerivativeDepth::current() == 0) return internal::call_plain(function, each...);
      return internal::custom_jvp_in_trace(function, rule, site, each...);
    };
    return internal::with_numbers_passed<std::decay_t<F>&>(
        [&](const auto&... each) { return internal::run_traced("custom_jvp", site, body, each...); },
        args...);
  };
}

/// The same for a derivative backwards only: forward(args...) gives the pair of the result and residuals, any
/// tree; backward(residuals, cotangent of the result) gives a std::tuple of the arguments' cotangents, or of
/// a single argument that alone. Those of integers are not looked at. Throws as custom_jvp, and where it is
/// differentiated forwards.
template <class F, class Forward, class Backward>
auto custom_vjp(F&& function, Forward&& forward, Backward&& backward,
                std::source_location where = std::source_location::current()) {
  return [
    function = std::decay_t<F>(function), forward = std::decay_t<Forward>(forward),
    backward = std::decay_t<Backward>(backward), site = CallSite::from(where)
  ]<class... Args>(const Args&... args) mutable requires internal::Takes<F, Args...> {
    auto body = [&function, &forward, &backward, site](const auto&... each) {
      if (internal::DerivativeDepth::current() == 0) return internal::call_plain(function, each...);
      return internal::custom_vjp_in_trace(function, forward, backward, site, each...);
    };
    return internal::with_numbers_passed<std::decay_t<F>&>(
        [&](const auto&... each) { return internal::run_traced("custom_vjp", site, body, each...); },
        args...);
  };
}

}  // namespace lockstep
