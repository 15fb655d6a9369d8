#include "lockstep/jit/custom_solve.h"

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
  OpenFunction(Program program) : program_(std::make_shared<const Program>(std::move(program))) {}

  Arrays operator()(const Arrays& x, const Arrays& captures) const {
    Trace& trace = *Trace::current();
    std::vector<Value> values;
    for (const Arrays* arrays : {&x, &captures}) {
      for (const Array& array : *arrays) values.push_back(trace.value_of(array));
    }
    Arrays results;
    for (const Value& value : transforms::inline_program(trace.builder(), *program_, values))
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

 private:
  std::shared_ptr<const Program> program_;
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
    fail<ShapeError>("[{}] expected a function that gives what it takes,{}, got{} (at {})", operation, taken,
                     given, site.to_string());
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

struct LinearSolve {
  OpenFunction matvec;
  ArraysSolver solve, transpose_solve;
  bool symmetric;
  CallSite site;

  Arrays operator()(const Arrays& b, const Arrays& captures) const {
    auto plain = [this](const Arrays& b, const Arrays& captures) { return solve(matvec.of(captures), b); };
    auto forward = [this](const Arrays& b, const Arrays& captures) {
      Arrays x = (*this)(b, captures);
      return std::pair(x, std::pair(x, captures));
    };
    auto backward = [this](const std::pair<Arrays, Arrays>& kept, const Arrays& cotangents) {
      const auto& [x, captures] = kept;
      if (!transpose_solve) {
        fail<TraceError>(
            "[custom_linear_solve] has no derivative without a transpose_solve (at {}); give one, or say "
            "that "
            "the function is symmetric",
            site.to_string());
      }
      ArraysFunction across = symmetric ? matvec.of(captures) : matvec.transposed(x, captures);
      const Arrays y = linear_solve_of(tree_function_of(across), tree::tree_ref(cotangents), transpose_solve,
                                       solve, symmetric, site)
                           .take<Arrays>();
      return std::tuple(y, matvec.of_captures(x, captures, negated(y)));
    };
    return custom_vjp(plain, forward, backward)(b, captures);
  }
};

struct Root {
  OpenFunction function;
  ArraysSolver solve, tangent_solve;

  Arrays operator()(const Arrays& guess, const Arrays& captures) const {
    auto plain = [this](const Arrays& guess, const Arrays& captures) {
      return solve(function.of(captures), guess);
    };
    auto forward = [this](const Arrays& guess, const Arrays& captures) {
      Arrays x = (*this)(guess, captures);
      return std::pair(x, std::pair(x, captures));
    };
    auto backward = [this](const std::pair<Arrays, Arrays>& kept, const Arrays& cotangents) {
      const auto& [x, captures] = kept;
      const Arrays y = tangent_solve(function.transposed(x, captures), cotangents);
      Arrays none;
      for (const Array& array : x) none.push_back(zeros_like(array));
      return std::tuple(none, function.of_captures(x, captures, negated(y)));
    };
    return custom_vjp(plain, forward, backward)(guess, captures);
  }
};

}  // namespace

tree::AnyTree linear_solve_of(const TreeFunction& matvec, tree::TreeRef b, const ArraysSolver& solve,
                              const ArraysSolver& transpose_solve, bool symmetric, const CallSite& site) {
  return run_trees_in_trace(
      "custom_linear_solve", site, {&b, 1}, [&](const std::vector<tree::TreeRef>& given) {
        CallSiteScope scope(site);
        const auto [function, captures] = opened("custom_linear_solve", matvec, given[0], site);
        const LinearSolve solved{function, solve, transpose_solve, symmetric, site};
        return tree::AnyTree::with_leaves(b, solved(given[0].leaves(), captures));
      });
}

tree::AnyTree root_of(const TreeFunction& function, tree::TreeRef guess, const ArraysSolver& solve,
                      const ArraysSolver& tangent_solve, const CallSite& site) {
  return run_trees_in_trace("custom_root", site, {&guess, 1}, [&](const std::vector<tree::TreeRef>& given) {
    CallSiteScope scope(site);
    const auto [open, captures] = opened("custom_root", function, given[0], site);
    const Root root{open, solve, tangent_solve};
    return tree::AnyTree::with_leaves(guess, root(given[0].leaves(), captures));
  });
}

}  // namespace lockstep::internal
