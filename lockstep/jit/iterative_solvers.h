// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <source_location>
#include <type_traits>

#include "lockstep/base/function.h"
#include "lockstep/jit/custom_solve.h"

/// jax.scipy.sparse.linalg: solvers of linear equations that only use matrix-vector products.
namespace lockstep {

template <class Tree>
struct SolverOptions {
  std::optional<Tree> x0 = std::nullopt;  ///< the start; by default zeros

  /// The solver stops when the norm of the residual is at most max(tol * |b|, atol), or after maxiter steps
  /// (for gmres: restarts), by default 10 for each element of b.
  double tol = 1e-5, atol = 0;
  std::optional<std::int64_t> maxiter = std::nullopt;

  std::int64_t restart = 20;  ///< for gmres: the number of products between two restarts

  /// A linear function that approximates the inverse, applied to residuals; by default none. cg needs a
  /// symmetric and positive definite one.
  std::function<Tree(const Tree&)> M = nullptr;
};

namespace internal {

struct Iteration {
  double tol, atol;
  std::optional<std::int64_t> maxiter;
  std::int64_t restart;
  std::vector<Array> x0;          ///< empty: zeros
  ArraysFunction preconditioner;  ///< may be null
};
std::vector<Array> cg_of(const ArraysFunction& matvec, const std::vector<Array>& b, const Iteration& how);
std::vector<Array> gmres_of(const ArraysFunction& matvec, const std::vector<Array>& b, const Iteration& how);

/// `by` is one of the two functions above.
tree::AnyTree solve_iteratively(decltype(&cg_of) by, bool symmetric, const TreeFunction& matvec,
                                tree::TreeRef b, const Iteration& how, const CallSite& site);

template <class A, class Tree>
Tree solved(decltype(&cg_of) by, bool symmetric, A&& matvec, const Tree& b,
            const SolverOptions<Tree>& options, const CallSite& site) {
  Iteration how{options.tol, options.atol, options.maxiter, options.restart, {}, nullptr};
  if (options.x0) how.x0 = tree::tree_ref(*options.x0).leaves();
  if (options.M) {
    how.preconditioner = [&](const std::vector<Array>& arrays) {
      Tree x = b;
      tree::tree_ref(x).replace_leaves(arrays);
      const Tree result = options.M(x);
      return tree::tree_ref(result).leaves();
    };
  }
  std::decay_t<A> function = matvec;
  constexpr std::type_identity<std::tuple<Tree>> types;
  return solve_iteratively(by, symmetric, tree_function<Tree>(function, types), tree::tree_ref(b), how, site)
      .template take<Tree>();
}

}  // namespace internal

/// x with matvec(x) = b, for a symmetric (Hermitian) and positive definite linear function, by conjugate
/// gradients (Hestenes and Stiefel, 1952). As in custom_linear_solve it has both derivatives with respect
/// to b and to the arrays that matvec uses. Throws Error for a negative maxiter, and as custom_linear_solve
/// does.
template <class A, class Tree>
Tree cg(A&& matvec, const Tree& b, const std::type_identity_t<SolverOptions<Tree>>& options = {},
        std::source_location where = std::source_location::current()) {
  return internal::solved(&internal::cg_of, true, matvec, b, options, CallSite::from(where));
}

/// Like cg, for any invertible linear function, by GMRES (Saad and Schultz, 1986) with a restart after
/// `restart` products. The preconditioner is applied from the left, and the tolerance refers to the
/// preconditioned residual.
template <class A, class Tree>
Tree gmres(A&& matvec, const Tree& b, const std::type_identity_t<SolverOptions<Tree>>& options = {},
           std::source_location where = std::source_location::current()) {
  return internal::solved(&internal::gmres_of, false, matvec, b, options, CallSite::from(where));
}

}  // namespace lockstep
