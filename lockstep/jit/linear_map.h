#pragma once

#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/jit/derivative_depth.h"
#include "lockstep/jit/nested_call.h"

/// What the functions of derivatives.h are made of: a function's value at some arguments, and its derivative
/// there as a linear map.
namespace lockstep::internal {

/// The derivative of a program at known inputs: what to run when tangents (cotangents) are given.
struct LinearProgram {
  Program program;                 ///< inputs: what was computed before, then the tangents that count
  std::vector<bool> known_output;  ///< of each derivative: whether it depends on no tangent
  std::vector<Aval> given;         ///< of each tangent (cotangent) of the caller's, the aval it must have
  std::vector<Aval> result;        ///< of each derivative that a call gives back, its aval
};

/// The program's outputs, then what `linear` needs; `linear` is set. Forwards, its tangents are those of the
/// inputs and its results those of the outputs; backwards, the other way round. `inputs` are arrays of the
/// current trace, the program's captures included; the first `num_arguments` are differentiated where they
/// are inexact.
std::vector<Array> linearize_in_trace(const Program& program, const std::vector<Array>& inputs,
                                      std::size_t num_arguments, bool forwards, LinearProgram& linear);

/// Throws ShapeError or DTypeError where a tangent has another aval than it must; `operation` and `what` are
/// for the message.
void check_tangents(const LinearProgram& linear, const std::vector<Array>& tangents,
                    std::string_view operation, std::string_view what, const CallSite& site);

/// The derivatives for these tangents.
std::vector<Array> apply_linear(const LinearProgram& linear, const std::vector<Array>& needed,
                                const std::vector<Array>& tangents);

/// Traces function(args...) and gives its program, its inputs (the arguments' leaves, then captures) and how
/// many of them are the arguments'.
template <class Result, class F, class... Args>
struct TracedCall {
  Program program;
  std::vector<Array> inputs;
  std::size_t num_arguments = 0;
  Result result;

  TracedCall(F& function, std::string_view name, const Args&... args) {
    auto collect = [&](const auto& tree) {
      for (Array& leaf : tree::leaves(tree)) inputs.push_back(std::move(leaf));
    };
    (collect(args), ...);
    num_arguments = inputs.size();
    DerivativeDepth once_more(DerivativeDepth::current() + 1);
    Trace trace{std::string(name)};
    std::tuple<Args...> tracers{as_tracers<Args>(trace, args)...};
    result = std::apply([&](auto&... each) { return Result(function(std::move(each)...)); }, tracers);
    program = trace.finish(tree::leaves(result));
    for (const Array& capture : trace.captures()) inputs.push_back(capture);
  }
};

/// A linear map between trees: From's leaves to To's.
template <class From, class To>
class LinearMap {
 public:
  LinearMap(std::shared_ptr<const LinearProgram> linear, std::vector<Array> needed, To exemplar,
            std::string_view operation, std::string_view what, const CallSite& site)
      : operation_(operation),
        what_(what),
        body_{std::move(linear), std::move(exemplar)},
        needed_(std::move(needed)),
        jitted_(body_, {.name = std::string(operation)}, site) {}

  /// Throws ShapeError or DTypeError where an array has another shape or dtype than that which it stands for.
  To operator()(const From& given, std::source_location where = std::source_location::current()) const {
    check_tangents(*body_.linear, tree::leaves(given), operation_, what_, CallSite::from(where));
    if (Trace::current() != nullptr) return body_(needed_, given);
    return jitted_.call_as_given(needed_, given);
  }

 private:
  struct Body {
    std::shared_ptr<const LinearProgram> linear;
    To exemplar;

    To operator()(const std::vector<Array>& needed, const From& given) const {
      std::vector<Array> results = apply_linear(*linear, needed, tree::leaves(given));
      To out = exemplar;
      auto next = results.begin();
      tree::replace_leaves(out, next);
      return out;
    }
  };

  std::string_view operation_, what_;
  Body body_;
  std::vector<Array> needed_;
  Jitted<Body> jitted_;
};

/// function(args...) and its linear map, forwards or backwards.
template <bool forwards, class F, class... Args>
auto linearized(F& function, std::string_view name, const CallSite& site, const Args&... args) {
  using Result = std::decay_t<std::invoke_result_t<F&, Args...>>;
  using Arguments = std::tuple<Args...>;
  auto linear = std::make_shared<LinearProgram>();
  auto body = [&function, name, linear](const Args&... each) {
    TracedCall<Result, F, Args...> call(function, name, each...);
    std::vector<Array> outputs =
        linearize_in_trace(call.program, call.inputs, call.num_arguments, forwards, *linear);
    const std::size_t n = call.program.outputs.size();
    auto next = outputs.begin();
    tree::replace_leaves(call.result, next);
    return std::pair<Result, std::vector<Array>>(
        call.result, std::vector<Array>(outputs.begin() + static_cast<std::ptrdiff_t>(n), outputs.end()));
  };
  auto [result, needed] = in_trace(body, name, site, args...);
  if constexpr (forwards) {
    LinearMap<Arguments, Result> map(linear, needed, result, name, "tangent", site);
    return std::pair(std::move(result), std::move(map));
  } else {
    LinearMap<Result, Arguments> map(linear, needed, Arguments(args...), name, "cotangent", site);
    return std::pair(std::move(result), std::move(map));
  }
}

/// Unit vectors of an array's elements: [size, ...shape], one 1 each.
Array basis(const Array& x);

/// Throws TraceError where x is not floating.
void check_differentiable(std::string_view operation, const Array& x, const CallSite& site);

/// The shape of the first, then of the second.
Shape joined(const Shape& first, const Shape& second);

/// The function of argument `argnum` alone, with the others as given.
template <std::size_t argnum, class F, class... Args>
auto of_one_argument(F& function, const Args&... args) {
  return [&function, all = std::tuple<const Args&...>(args...)](
             const std::tuple_element_t<argnum, std::tuple<Args...>>& given) {
    auto pick = [&]<std::size_t i>() -> std::tuple_element_t<i, std::tuple<Args...>> {
      if constexpr (i == argnum)
        return given;
      else
        return std::get<i>(all);
    };
    return [&]<std::size_t... i>(std::index_sequence<i...>) {
      return function(pick.template operator()<i>()...);
    }
    (std::index_sequence_for<Args...>());
  };
}

}  // namespace lockstep::internal
