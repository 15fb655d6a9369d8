// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "lockstep/jit/jit.h"
#include "lockstep/tree/kinds.h"

/// User-defined derivatives, for functions whose automatic derivative is unstable, slow, or does not exist.
namespace lockstep {

namespace internal {

/// `arguments` is the tuple of the arguments. `rule` takes it and the tuple of their tangents, and returns
/// the pair of the result and its tangent. `no_reverse`: there is no reverse derivative, and this is the text
/// of the error.
tree::AnyTree custom_jvp_of(const TreeFunction& function, const TreeFunction& rule, const CallSite& site,
                            tree::TreeRef arguments, std::optional<std::string> no_reverse = {});

/// `forward` returns the pair of the result and residuals; `backward` takes the residuals and the cotangent
/// of the result, and returns the tuple of the arguments' cotangents. `jvp_rule`, if it is not null, is as in
/// custom_jvp_of: then there is a forward derivative, too.
tree::AnyTree custom_vjp_of(const TreeFunction& function, const TreeFunction& forward,
                            const TreeFunction& backward, const CallSite& site, tree::TreeRef arguments,
                            const TreeFunction* jvp_rule = nullptr);

template <class F, class Rule, class... P, class... Args>
auto call_custom_jvp(F& function, Rule& rule, const CallSite& site,
                     std::type_identity<std::tuple<P...>> types, const Args&... args) {
  using Result = ResultType<F, std::tuple<P...>>;
  using Both = std::tuple<std::tuple<P...>, std::tuple<P...>>;
  using Given = ResultType<Rule, Both>;
  static_assert(tree::internal::is_tuple<Given> && std::tuple_size_v<Given> == 2,
                "the rule of a custom_jvp gives a pair: the result and its tangent");
  const std::tuple<P...> arguments(passed<P>(args)...);
  return custom_jvp_of(tree_function<Result>(function, types),
                       tree_function<Given>(rule, std::type_identity<Both>()), site,
                       tree::tree_ref(arguments))
      .template take<Result>();
}

template <class F, class Forward, class Backward, class... P, class... Args>
auto call_custom_vjp(F& function, Forward& forward, Backward& backward, const CallSite& site,
                     std::type_identity<std::tuple<P...>> types, const Args&... args) {
  using Result = ResultType<F, std::tuple<P...>>;
  using First = ResultType<Forward, std::tuple<P...>>;
  static_assert(tree::internal::is_tuple<First> && std::tuple_size_v<First> == 2,
                "the forward function of a custom_vjp gives a pair: the result and residuals");
  using Second = std::tuple<std::tuple_element_t<1, First>, Result>;
  const std::tuple<P...> arguments(passed<P>(args)...);
  return custom_vjp_of(tree_function<Result>(function, types), tree_function<First>(forward, types),
                       tree_function<std::tuple<P...>>(backward, std::type_identity<Second>()), site,
                       tree::tree_ref(arguments))
      .template take<Result>();
}

}  // namespace internal

/// A function that computes `function` and has a user-defined derivative, in forward mode and so in reverse
/// mode. rule(arguments, tangents), each a std::tuple of trees like the arguments, returns the pair of the
/// result and its tangent, a tree like the result. The tangent must be linear in the tangents. Arrays from
/// outside are constants: there is no derivative with respect to them. The rule is only called where the
/// function is differentiated, and may call the function itself. Throws TraceError, at that time, if the
/// rule's result does not match.
///   auto f = custom_jvp([](Array x) { return log(1 + exp(x)); },
///                       [](std::tuple<Array> x, std::tuple<Array> t) { ... return std::pair(y, dy); });
template <class F, class Rule>
auto custom_jvp(F&& function, Rule&& rule, std::source_location where = std::source_location::current()) {
  return [
    held = internal::Held<std::decay_t<F>>{std::forward<F>(function)},
    held_rule = internal::Held<std::decay_t<Rule>>{std::forward<Rule>(rule)}, site = CallSite::from(where)
  ]<class... Args>(const Args&... args) requires CallableWith<F, Args...> {
    return internal::call_custom_jvp(held.function, held_rule.function, site,
                                     internal::PassedTypes<std::decay_t<F>&, Args...>(), args...);
  };
}

/// Like custom_jvp, for a reverse derivative only. forward(args...) returns the pair of the result and
/// residuals, any tree. backward(residuals, cotangent of the result) returns a std::tuple of the arguments'
/// cotangents, or for a single argument its cotangent. Cotangents of integers are ignored. Throws as
/// custom_jvp does, and if it is differentiated in forward mode.
template <class F, class Forward, class Backward>
auto custom_vjp(F&& function, Forward&& forward, Backward&& backward,
                std::source_location where = std::source_location::current()) {
  return [
    held = internal::Held<std::decay_t<F>>{std::forward<F>(function)},
    held_forward = internal::Held<std::decay_t<Forward>>{std::forward<Forward>(forward)},
    held_backward = internal::Held<std::decay_t<Backward>>{std::forward<Backward>(backward)},
    site = CallSite::from(where)
  ]<class... Args>(const Args&... args) requires CallableWith<F, Args...> {
    return internal::call_custom_vjp(held.function, held_forward.function, held_backward.function, site,
                                     internal::PassedTypes<std::decay_t<F>&, Args...>(), args...);
  };
}

}  // namespace lockstep
