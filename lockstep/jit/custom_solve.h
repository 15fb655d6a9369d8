// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/function.h"
#include "lockstep/jit/tree_function.h"

/// Solutions of equations whose derivatives are derived from the equation, not from the steps of the solver:
/// jax.lax's custom_linear_solve and custom_root. They have forward and reverse derivatives of any order.
/// Outside arrays in the equation's function are differentiated. Outside arrays in the solver are constants
/// (TraceError if they are differentiated); the solver gets the function as an argument.
///
/// A solver may return a std::pair of the solution and other things about it, any tree, such as the number of
/// steps: has_aux of JAX. Then custom_linear_solve and custom_root return such a pair; the other things have
/// no derivative.
namespace lockstep {

struct LinearSolveOptions {
  bool symmetric = false;  ///< the function is its own transpose, and `solve` solves for both
};

namespace internal {

/// A solver of function(x) = b, where `function` is a function between lists of arrays of the same types. It
/// returns the arrays of x, then any others.
using ArraysSolver =
    std::function<std::vector<Array>(const ArraysFunction& function, const std::vector<Array>& b)>;

/// Return the arrays that `solve` returns. `transpose_solve` may be null; then there is no reverse
/// derivative.
std::vector<Array> linear_solve_of(const TreeFunction& matvec, tree::TreeRef b, const ArraysSolver& solve,
                                   const ArraysSolver& transpose_solve, bool symmetric, const CallSite& site);
std::vector<Array> root_of(const TreeFunction& function, tree::TreeRef guess, const ArraysSolver& solve,
                           const ArraysSolver& tangent_solve, const CallSite& site);

/// The result of a solver of trees like Tree.
template <class Tree, class Solve>
using Solved =
    std::decay_t<std::invoke_result_t<Solve&, const std::function<Tree(const Tree&)>&, const Tree&>>;

/// A solver of trees like this one, as a solver of lists of arrays. It must live as long as that one is used.
template <class Tree, class Solve>
class TreeSolver {
 public:
  using Result = Solved<Tree, Solve>;
  static constexpr bool has_aux = !std::is_convertible_v<Result, Tree>;

  TreeSolver(const Tree& like, Solve& solve) : like_(like), solve_(solve) {}

  operator ArraysSolver() {
    return [this](const ArraysFunction& function, const std::vector<Array>& b) {
      const std::function<Tree(const Tree&)> of_trees = [&](const Tree& x) {
        return tree_of(function(tree::tree_ref(x).leaves()));
      };
      Result found = solve_(of_trees, tree_of(b));
      if constexpr (has_aux) {
        static_assert(std::is_convertible_v<decltype(found.first), Tree>,
                      "a solver returns the solution, or a pair of it and other things");
        std::vector<Array> all = tree::tree_ref(found.first).leaves();
        for (Array& other : tree::tree_ref(found.second).leaves()) all.push_back(std::move(other));
        found_ = std::make_unique<Result>(std::move(found));
        return all;
      } else {
        const Tree x = std::move(found);
        return tree::tree_ref(x).leaves();
      }
    };
  }

  /// The solver's result, with these arrays.
  auto result(const std::vector<Array>& arrays) const {
    if constexpr (has_aux) {
      Result result = std::move(*found_);
      tree::tree_ref(result.second).replace_leaves(tree::tree_ref(result.first).replace_leaves(arrays));
      return result;
    } else {
      return tree_of(arrays);
    }
  }

 private:
  Tree tree_of(const std::vector<Array>& arrays) const {
    Tree tree = like_;
    tree::tree_ref(tree).replace_leaves(arrays);
    return tree;
  }

  const Tree& like_;
  Solve& solve_;
  std::unique_ptr<Result> found_;  ///< for what it has besides arrays
};

}  // namespace internal

/// x with matvec(x) = b, as found by solve(matvec, b). matvec must be linear, on trees like b. The derivative
/// is that of the exact solution; the reverse one needs transpose_solve(vecmat, b), which solves for the
/// transposed function (TraceError if it is not given). Throws ShapeError if matvec's result has other shapes
/// than its argument.
template <class Matvec, class Tree, class Solve, class TransposeSolve>
requires(!std::is_same_v<std::decay_t<TransposeSolve>, LinearSolveOptions>) auto custom_linear_solve(
    Matvec&& matvec, const Tree& b, Solve&& solve, TransposeSolve&& transpose_solve,
    LinearSolveOptions options = {}, std::source_location where = std::source_location::current()) {
  std::decay_t<Matvec> function = matvec;
  internal::TreeSolver forward(b, solve), back(b, transpose_solve);
  return forward.result(internal::linear_solve_of(
      internal::tree_function<Tree>(function, std::type_identity<std::tuple<Tree>>()), tree::tree_ref(b),
      forward, back, options.symmetric, CallSite::from(where)));
}
template <class Matvec, class Tree, class Solve>
auto custom_linear_solve(Matvec&& matvec, const Tree& b, Solve&& solve, LinearSolveOptions options = {},
                         std::source_location where = std::source_location::current()) {
  std::decay_t<Matvec> function = matvec;
  internal::TreeSolver forward(b, solve);
  const internal::ArraysSolver by = forward;
  return forward.result(internal::linear_solve_of(
      internal::tree_function<Tree>(function, std::type_identity<std::tuple<Tree>>()), tree::tree_ref(b), by,
      options.symmetric ? by : internal::ArraysSolver(), options.symmetric, CallSite::from(where)));
}

/// x with function(x) = 0, as found by solve(function, initial_guess). The derivative comes from the implicit
/// function theorem: tangent_solve(linear, y) must find x with linear(x) = y, where `linear` is the
/// derivative of the function at the root, or for a reverse derivative its transpose; for a scalar it is y /
/// linear(1). With custom_linear_solve, cg or gmres in tangent_solve it can be differentiated again. There is
/// no derivative with respect to the guess.
template <class F, class Tree, class Solve, class TangentSolve>
auto custom_root(F&& function, const Tree& initial_guess, Solve&& solve, TangentSolve&& tangent_solve,
                 std::source_location where = std::source_location::current()) {
  std::decay_t<F> own = function;
  internal::TreeSolver forward(initial_guess, solve), tangent(initial_guess, tangent_solve);
  return forward.result(
      internal::root_of(internal::tree_function<Tree>(own, std::type_identity<std::tuple<Tree>>()),
                        tree::tree_ref(initial_guess), forward, tangent, CallSite::from(where)));
}

}  // namespace lockstep
