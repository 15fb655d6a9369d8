// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/custom_solve.h"

#include <fmt/format.h>

#include <memory>

#include "lockstep/base/fail.h"
#include "lockstep/jit/custom_derivative.h"
#include "lockstep/jit/derivative_depth.h"
#include "lockstep/jit/derivatives.h"
#include "lockstep/jit/traced_function.h"
#include "lockstep/ops/ops.h"
#include "lockstep/transforms/inline.h"

namespace lockstep::internal {
namespace {

using Arrays = std::vector<Array>;

/// A function of x whose arrays from outside, `captures`, are arguments too.
class OpenFunction {
 public:
  OpenFunction(ir::Program program) : program_(std::make_shared<const ir::Program>(std::move(program))) {}

  Arrays operator()(const Arrays& x, const Arrays& captures) const {
    Trace& trace = *Trace::current();
    std::vector<ir::Value> values;
    for (const Arrays* arrays : {&x, &captures}) {
      for (const Array& array : *arrays) values.push_back(trace.value_of(array));
    }
    Arrays results;
    for (const ir::Value& value : transforms::inline_program(trace.builder(), *program_, values))
      results.push_back(trace.wrap(value));
    return results;
  }

  ArraysFunction of(const Arrays& captures) const {
    return [*this, captures](const Arrays& x) { return (*this)(x, captures); };
  }

  /// y -> the cotangents of x for cotangents y of the results, at this x.
  ArraysFunction transposed(const Arrays& x, const Arrays& captures) const {
    const auto pull = vjp(of(captures), x).second;
    return [pull](const Arrays& y) { return std::get<0>(pull(y)); };
  }

  /// The cotangents of the captures for cotangents y of the results.
  Arrays of_captures(const Arrays& x, const Arrays& captures, const Arrays& y) const {
    if (captures.empty()) return {};
    auto function = [&](const Arrays& from_outside) { return (*this)(x, from_outside); };
    return std::get<0>(vjp(function, captures).second(y));
  }

  /// v -> the tangents of the results for tangents v of x, at this x.
  ArraysFunction tangent(const Arrays& x, const Arrays& captures) const {
    return [*this, x, captures](const Arrays& v) {
      return jvp(of(captures), std::tuple(x), std::tuple(v)).second;
    };
  }

  /// The tangents of the results for tangents of the captures.
  Arrays along_captures(const Arrays& x, const Arrays& captures, const Arrays& tangents) const {
    auto function = [&](const Arrays& from_outside) { return (*this)(x, from_outside); };
    return jvp(function, std::tuple(captures), std::tuple(tangents)).second;
  }

 private:
  std::shared_ptr<const ir::Program> program_;
};

/// The function as one of x and its captures. Throws ShapeError if its result has other shapes than its
/// argument.
std::pair<OpenFunction, Arrays> opened(const char* operation, const TreeFunction& function, tree::TreeRef x,
                                       const CallSite& site) {
  TracedFunction traced;
  {
    // It will be differentiated, whether the surrounding code is or not.
    DerivativeDepth once_more(DerivativeDepth::current() + 1);
    traced = trace_function(operation, function, {&x, 1});
  }
  const std::vector<Aval> results = traced.traced.program.output_avals();
  const Arrays arrays = x.leaves();
  bool fits = results.size() == arrays.size();
  for (std::size_t i = 0; fits && i < results.size(); ++i)
    fits = results[i].shape == arrays[i].shape() && results[i].dtype == arrays[i].dtype();
  if (!fits) {
    std::string taken, given;
    for (const Array& array : arrays) taken += " " + to_string(array.aval());
    for (const Aval& aval : results) given += " " + to_string(aval);
    fail<ShapeError>(
        "[{}] expected a function whose results have the types of its arguments,{}, got{} (at {})", operation,
        taken, given, site.to_string());
  }
  return {OpenFunction(std::move(traced.traced.program)), std::move(traced.traced.captures)};
}

Arrays negated(Arrays arrays) {
  for (Array& array : arrays) array = -array;
  return arrays;
}

/// As a tree function of lists of arrays.
TreeFunction tree_function_of(ArraysFunction& function) {
  return tree_function<Arrays>(function, std::type_identity<std::tuple<Arrays>>());
}

Arrays first_of(const Arrays& arrays, std::size_t count) {
  return {arrays.begin(), arrays.begin() + static_cast<std::ptrdiff_t>(count)};
}

/// The tangents of what a solver returned: those of the solution, and none of what it says besides.
Arrays with_no_others(Arrays tangents, const Arrays& all) {
  for (std::size_t i = tangents.size(); i < all.size(); ++i) tangents.push_back(zeros_like(all[i]));
  return tangents;
}

using Both = std::tuple<Arrays, Arrays>;

TreeFunction jvp_rule_of(auto& rule) {
  return tree_function<std::pair<Arrays, Arrays>>(rule, std::type_identity<std::tuple<Both, Both>>());
}

/// plain(x, captures) with its derivatives in both modes.
Arrays with_derivatives(auto plain, auto forward, auto backward, auto rule, const Arrays& x,
                        const Arrays& captures, const CallSite& site) {
  using Kept = std::pair<Arrays, Arrays>;
  constexpr std::type_identity<Both> types;
  const Both arguments(x, captures);
  const TreeFunction jvp_rule = jvp_rule_of(rule);
  return custom_vjp_of(tree_function<Arrays>(plain, types),
                       tree_function<std::pair<Arrays, Kept>>(forward, types),
                       tree_function<Both>(backward, std::type_identity<std::tuple<Kept, Arrays>>()), site,
                       tree::tree_ref(arguments), &jvp_rule)
      .template take<Arrays>();
}

/// The same with a forward derivative only; `no_reverse` is the text of the error for the other.
Arrays with_forward_derivative(auto plain, auto rule, const Arrays& x, const Arrays& captures,
                               const CallSite& site, std::string no_reverse) {
  const Both arguments(x, captures);
  return custom_jvp_of(tree_function<Arrays>(plain, std::type_identity<Both>()), jvp_rule_of(rule), site,
                       tree::tree_ref(arguments), std::move(no_reverse))
      .template take<Arrays>();
}

struct LinearSolve {
  OpenFunction matvec;
  ArraysSolver solve, transpose_solve;
  bool symmetric;
  CallSite site;

  Arrays operator()(const Arrays& b, const Arrays& captures) const {
    auto plain = [this](const Arrays& b, const Arrays& captures) { return solve(matvec.of(captures), b); };
    auto forward = [this](const Arrays& b, const Arrays& captures) {
      Arrays all = (*this)(b, captures);
      const Arrays x = first_of(all, b.size());
      return std::pair(std::move(all), std::pair(x, captures));
    };
    auto backward = [this](const std::pair<Arrays, Arrays>& kept, const Arrays& cotangents) {
      const auto& [x, captures] = kept;
      ArraysFunction across = symmetric ? matvec.of(captures) : matvec.transposed(x, captures);
      const Arrays of_x = first_of(cotangents, x.size());
      const Arrays y = first_of(linear_solve_of(tree_function_of(across), tree::tree_ref(of_x),
                                                transpose_solve, solve, symmetric, site),
                                x.size());
      return std::tuple(y, matvec.of_captures(x, captures, negated(y)));
    };
    // A x = b, so A dx = db - dA x.
    auto rule = [this](const std::tuple<Arrays, Arrays>& at, const std::tuple<Arrays, Arrays>& along) {
      const auto& [b, captures] = at;
      Arrays all = (*this)(b, captures), right = std::get<0>(along);
      const Arrays x = first_of(all, b.size());
      if (!captures.empty()) {
        const Arrays moved = matvec.along_captures(x, captures, std::get<1>(along));
        for (std::size_t i = 0; i < right.size(); ++i) right[i] = right[i] - moved[i];
      }
      ArraysFunction same = matvec.of(captures);
      const Arrays dx = first_of(linear_solve_of(tree_function_of(same), tree::tree_ref(right), solve,
                                                 transpose_solve, symmetric, site),
                                 b.size());
      Arrays tangents = with_no_others(dx, all);
      return std::pair(std::move(all), std::move(tangents));
    };
    if (transpose_solve) return with_derivatives(plain, forward, backward, rule, b, captures, site);
    return with_forward_derivative(
        plain, rule, b, captures, site,
        fmt::format("[custom_linear_solve] has no reverse derivative without a transpose_solve (at {}); give "
                    "one, or say that the function is symmetric",
                    site.to_string()));
  }
};

struct Root {
  OpenFunction function;
  ArraysSolver solve, tangent_solve;
  CallSite site;

  Arrays operator()(const Arrays& guess, const Arrays& captures) const {
    auto plain = [this](const Arrays& guess, const Arrays& captures) {
      return solve(function.of(captures), guess);
    };
    auto forward = [this](const Arrays& guess, const Arrays& captures) {
      Arrays all = (*this)(guess, captures);
      const Arrays x = first_of(all, guess.size());
      return std::pair(std::move(all), std::pair(x, captures));
    };
    auto backward = [this](const std::pair<Arrays, Arrays>& kept, const Arrays& cotangents) {
      const auto& [x, captures] = kept;
      const Arrays y =
          first_of(tangent_solve(function.transposed(x, captures), first_of(cotangents, x.size())), x.size());
      Arrays none;
      for (const Array& array : x) none.push_back(zeros_like(array));
      return std::tuple(none, function.of_captures(x, captures, negated(y)));
    };
    // f(x, c) = 0, so df/dx dx = -df/dc dc.
    auto rule = [this](const std::tuple<Arrays, Arrays>& at, const std::tuple<Arrays, Arrays>& along) {
      const auto& [guess, captures] = at;
      Arrays all = (*this)(guess, captures);
      const Arrays x = first_of(all, guess.size());
      Arrays dx;
      if (captures.empty()) {
        for (const Array& array : x) dx.push_back(zeros_like(array));
      } else {
        const Arrays right = negated(function.along_captures(x, captures, std::get<1>(along)));
        dx = first_of(tangent_solve(function.tangent(x, captures), right), x.size());
      }
      Arrays tangents = with_no_others(std::move(dx), all);
      return std::pair(std::move(all), std::move(tangents));
    };
    return with_derivatives(plain, forward, backward, rule, guess, captures, site);
  }
};

/// Runs it on the opened function's captures; returns all arrays.
template <class Solved>
Arrays solved_in_trace(const char* operation, const TreeFunction& function, tree::TreeRef x,
                       const CallSite& site, Solved solved) {
  return run_trees_in_trace(operation, site, {&x, 1},
                            [&](const std::vector<tree::TreeRef>& given) {
                              CallSiteScope scope(site);
                              const auto [open, captures] = opened(operation, function, given[0], site);
                              return tree::AnyTree(new Arrays(solved(open, given[0].leaves(), captures)),
                                                   tree::type_of<Arrays>);
                            })
      .template take<Arrays>();
}

}  // namespace

Arrays linear_solve_of(const TreeFunction& matvec, tree::TreeRef b, const ArraysSolver& solve,
                       const ArraysSolver& transpose_solve, bool symmetric, const CallSite& site) {
  return solved_in_trace("custom_linear_solve", matvec, b, site,
                         [&](const OpenFunction& open, const Arrays& right, const Arrays& captures) {
                           return LinearSolve{open, solve, transpose_solve, symmetric, site}(right, captures);
                         });
}

Arrays root_of(const TreeFunction& function, tree::TreeRef guess, const ArraysSolver& solve,
               const ArraysSolver& tangent_solve, const CallSite& site) {
  return solved_in_trace("custom_root", function, guess, site,
                         [&](const OpenFunction& open, const Arrays& at, const Arrays& captures) {
                           return Root{open, solve, tangent_solve, site}(at, captures);
                         });
}

}  // namespace lockstep::internal
