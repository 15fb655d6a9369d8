#pragma once

#include <functional>
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/jit/tree_function.h"

/// Solutions of equations whose derivatives are derived from the equation, not from the steps of the solver:
/// jax.lax's custom_linear_solve and custom_root. They only have reverse derivatives, of any order. Outside
/// arrays in the equation's function are differentiated. Outside arrays in the solver are constants
/// (TraceError if they are differentiated); the solver gets the function as an argument.
namespace lockstep {

struct LinearSolveOptions {
  bool symmetric = false;  ///< the function is its own transpose, and `solve` solves for both
};

namespace internal {

/// A solver of function(x) = b, where `function` is a linear function between lists of arrays of the same
/// types.
using ArraysSolver =
    std::function<std::vector<Array>(const ArraysFunction& function, const std::vector<Array>& b)>;

/// `transpose_solve` may be null; then there is no derivative.
tree::AnyTree linear_solve_of(const TreeFunction& matvec, tree::TreeRef b, const ArraysSolver& solve,
                              const ArraysSolver& transpose_solve, bool symmetric, const CallSite& site);
tree::AnyTree root_of(const TreeFunction& function, tree::TreeRef guess, const ArraysSolver& solve,
                      const ArraysSolver& tangent_solve, const CallSite& site);

/// Converts a solver of trees like this one to a solver of lists of arrays.
template <class Tree, class Solve>
ArraysSolver arrays_solver(const Tree& like, Solve& solve) {
  return [&like, &solve](const ArraysFunction& function, const std::vector<Array>& b) {
    auto tree_of = [&like](const std::vector<Array>& arrays) {
      Tree tree = like;
      tree::tree_ref(tree).replace_leaves(arrays);
      return tree;
    };
    const std::function<Tree(const Tree&)> of_trees = [&](const Tree& x) {
      return tree_of(function(tree::tree_ref(x).leaves()));
    };
    const Tree found = solve(of_trees, tree_of(b));
    return tree::tree_ref(found).leaves();
  };
}

}  // namespace internal

/// x with matvec(x) = b, as found by solve(matvec, b). matvec must be linear, on trees like b. The derivative
/// is that of the exact solution, and needs transpose_solve(vecmat, b), which solves for the transposed
/// function (TraceError if it is not given). Throws ShapeError if matvec's result has other shapes than its
/// argument.
template <class Matvec, class Tree, class Solve, class TransposeSolve>
requires(!std::is_same_v<std::decay_t<TransposeSolve>, LinearSolveOptions>) Tree
    custom_linear_solve(Matvec&& matvec, const Tree& b, Solve&& solve, TransposeSolve&& transpose_solve,
                        LinearSolveOptions options = {},
                        std::source_location where = std::source_location::current()) {
  std::decay_t<Matvec> function = matvec;
  constexpr std::type_identity<std::tuple<Tree>> types;
  return internal::linear_solve_of(internal::tree_function<Tree>(function, types), tree::tree_ref(b),
                                   internal::arrays_solver(b, solve),
                                   internal::arrays_solver(b, transpose_solve), options.symmetric,
                                   CallSite::from(where))
      .template take<Tree>();
}
template <class Matvec, class Tree, class Solve>
Tree custom_linear_solve(Matvec&& matvec, const Tree& b, Solve&& solve, LinearSolveOptions options = {},
                         std::source_location where = std::source_location::current()) {
  std::decay_t<Matvec> function = matvec;
  constexpr std::type_identity<std::tuple<Tree>> types;
  const internal::ArraysSolver by = internal::arrays_solver(b, solve);
  return internal::linear_solve_of(internal::tree_function<Tree>(function, types), tree::tree_ref(b), by,
                                   options.symmetric ? by : internal::ArraysSolver(), options.symmetric,
                                   CallSite::from(where))
      .template take<Tree>();
}

/// x with function(x) = 0, as found by solve(function, initial_guess). The reverse derivative comes from the
/// implicit function theorem: tangent_solve(linear, y) must find x with linear(x) = y, where `linear` is the
/// transposed derivative of the function at the root; for a scalar it is y / linear(1). With
/// custom_linear_solve, cg or gmres in tangent_solve it can be differentiated again. There is no derivative
/// with respect to the guess.
template <class F, class Tree, class Solve, class TangentSolve>
Tree custom_root(F&& function, const Tree& initial_guess, Solve&& solve, TangentSolve&& tangent_solve,
                 std::source_location where = std::source_location::current()) {
  std::decay_t<F> own = function;
  constexpr std::type_identity<std::tuple<Tree>> types;
  return internal::root_of(internal::tree_function<Tree>(own, types), tree::tree_ref(initial_guess),
                           internal::arrays_solver(initial_guess, solve),
                           internal::arrays_solver(initial_guess, tangent_solve), CallSite::from(where))
      .template take<Tree>();
}

}  // namespace lockstep
