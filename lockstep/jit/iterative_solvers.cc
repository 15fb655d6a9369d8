// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/iterative_solvers.h"

#include <cmath>

#include "lockstep/base/fail.h"
#include "lockstep/jit/control_flow.h"
#include "lockstep/ops/linalg.h"
#include "lockstep/ops/ops.h"

namespace lockstep::internal {
namespace {

using Arrays = std::vector<Array>;

/// A list of arrays as one vector, and back.
class Flat {
 public:
  explicit Flat(const Arrays& like) : like_(like) {
    std::vector<ElementType> types;
    for (const Array& array : like) {
      types.push_back({array.dtype(), false});
      size_ += array.size();
    }
    dtype_ = to_inexact(promote("iterative solver", types)).dtype;
  }

  std::int64_t size() const { return size_; }
  DType dtype() const { return dtype_; }

  Array vector(const Arrays& arrays) const {
    Arrays parts;
    for (const Array& array : arrays) parts.push_back(astype(ravel(array), dtype_));
    return parts.size() == 1 ? parts.front() : concatenate(parts);
  }

  Arrays arrays(const Array& vector) const {
    Arrays out;
    std::int64_t next = 0;
    for (const Array& each : like_) {
      const Array part = slice(vector, {next}, {next + each.size()});
      out.push_back(astype(reshape(part, each.shape()), each.dtype()));
      next += each.size();
    }
    return out;
  }

  /// The function as one of vectors; the identity if there is none.
  std::function<Array(const Array&)> of_vectors(const ArraysFunction& function) const {
    return [this, &function](const Array& x) { return function ? vector(function(arrays(x))) : x; };
  }

 private:
  Arrays like_;
  std::int64_t size_ = 0;
  DType dtype_ = DType::kF32;
};

Array dot_of(const Array& x, const Array& y) { return sum(x * y); }
Array norm_of(const Array& x) { return sqrt(dot_of(x, x)); }

/// The bound on the norm of the residual, for a right side of this norm.
Array bound(const Iteration& how, const Array& norm) { return maximum(how.tol * norm, how.atol); }

std::int64_t most(const Iteration& how, const Flat& flat) {
  const std::int64_t count = how.maxiter.value_or(10 * flat.size());
  if (count < 0 || how.restart < 1) {
    fail(
        "[iterative solver] expected a maxiter of 0 or more and a restart of 1 or more, got {} and {} (at "
        "{})",
        count, how.restart, CallSiteScope::current().to_string());
  }
  return count;
}

Array begin_of(const Iteration& how, const Flat& flat, const Array& b) {
  return how.x0.empty() ? zeros_like(b) : flat.vector(how.x0);
}

/// x divided by its norm, and the norm; zeros and 0 if the norm is not above the threshold.
std::pair<Array, Array> normalized(const Array& x, const Operand& threshold) {
  const Array norm = norm_of(x), counts = norm > threshold;
  return {where(counts, x / where(counts, norm, 1.0), 0.0), where(counts, norm, 0.0)};
}

struct Krylov {
  Array vectors;  ///< [restart + 1, n]: an orthonormal basis, one vector after the other, then zeros
  Array
      hessenberg;  ///< [restart, restart + 1]: the product with vector k, in the basis; then of the identity
  Array k, ended;
};

/// The product with vector k, made orthogonal to the vectors so far, is the next vector.
Krylov arnoldi_step(const Krylov& at, const std::function<Array(const Array&)>& product) {
  Array w = product(dynamic_slice(at.vectors, {at.k, 0}, {1, at.vectors.shape()[1]})[0]);
  const Array before = norm_of(w);
  Array row = zeros_like(at.vectors[{slice(), 0}]);
  for (int twice = 0; twice < 2; ++twice) {  // once leaves what rounding makes of large parts
    const Array along = matmul(at.vectors, w);
    w = w - matmul(along, at.vectors);
    row = row + along;
  }
  auto [next, norm] = normalized(w, finfo(w.dtype()).eps * before);
  row = where(arange(row.size()) == at.k + 1, norm, row);
  return {dynamic_update_slice(at.vectors, expand_dims(next, 0), {at.k + 1, 0}),
          dynamic_update_slice(at.hessenberg, expand_dims(row, 0), {at.k, 0}), at.k + 1, norm == 0};
}

}  // namespace

Arrays cg_of(const ArraysFunction& matvec, const Arrays& b, const Iteration& how) {
  const Flat flat(b);
  const auto product = flat.of_vectors(matvec), precondition = flat.of_vectors(how.preconditioner);
  const std::int64_t count = most(how, flat);
  struct State {
    Array x, residual, gamma, direction, k;
  };
  const Array right = flat.vector(b), x = begin_of(how, flat, right);
  const Array least = square(bound(how, norm_of(right)));
  const Array residual = right - product(x), first = precondition(residual);
  State state{x, residual, dot_of(residual, first), first, full({}, 0, DType::kI32)};
  state = while_loop(
      [&](const State& at) { return logical_and(dot_of(at.residual, at.residual) > least, at.k < count); },
      [&](const State& at) {
        const Array along = product(at.direction);
        const Array step = at.gamma / dot_of(at.direction, along);
        const Array residual = at.residual - step * along;
        const Array z = precondition(residual), gamma = dot_of(residual, z);
        return State{at.x + step * at.direction, residual, gamma, z + gamma / at.gamma * at.direction,
                     at.k + 1};
      },
      state);
  return flat.arrays(state.x);
}

Arrays gmres_of(const ArraysFunction& matvec, const Arrays& b, const Iteration& how) {
  const Flat flat(b);
  const auto multiply = flat.of_vectors(matvec), precondition = flat.of_vectors(how.preconditioner);
  const std::int64_t count = most(how, flat), restart = std::min(how.restart, flat.size());
  const std::function<Array(const Array&)> product = [&](const Array& x) {
    return precondition(multiply(x));
  };
  struct State {
    Array x, unit, norm, k;  // unit * norm: the residual
  };
  const Array right = flat.vector(b), x = begin_of(how, flat, right);
  const Array least = bound(how, norm_of(precondition(right)));
  auto residual_at = [&](const Array& x) { return normalized(precondition(right - multiply(x)), 0.0); };
  auto [unit, norm] = residual_at(x);
  State state{x, unit, norm, full({}, 0, DType::kI32)};
  state = while_loop(
      [&](const State& at) { return logical_and(at.norm > least, at.k < count); },
      [&](const State& at) {
        Krylov krylov{concatenate({expand_dims(at.unit, 0), zeros({restart, flat.size()}, flat.dtype())}),
                      eye(restart, restart + 1, flat.dtype()), full({}, 0, DType::kI32), full({}, false)};
        krylov =
            while_loop([&](const Krylov& at) { return logical_and(at.k < restart, logical_not(at.ended)); },
                       [&](const Krylov& at) { return arnoldi_step(at, product); }, krylov);
        // The least squares of hessenbergᵀ y = norm e0, by the normal equations.
        const Array& h = krylov.hessenberg;
        const Array y = linalg::solve(matmul(h, transpose(h)), at.norm * h[{slice(), 0}]);
        const Array next = at.x + matmul(y, krylov.vectors[slice(0, restart)]);
        auto [unit, norm] = residual_at(next);
        return State{next, unit, norm, at.k + 1};
      },
      state);
  return flat.arrays(state.x);
}

tree::AnyTree solve_iteratively(decltype(&cg_of) by, bool symmetric, const TreeFunction& matvec,
                                tree::TreeRef b, const Iteration& how, const CallSite& site) {
  const ArraysSolver solve = [&](const ArraysFunction& function, const Arrays& right) {
    return by(function, right, how);
  };
  Iteration across = how;  // of the derivative's equation, of which no beginning is known
  across.x0.clear();
  if (!symmetric) across.preconditioner = nullptr;
  const ArraysSolver transpose_solve = [&](const ArraysFunction& function, const Arrays& right) {
    return by(function, right, across);
  };
  return tree::AnyTree::with_leaves(b, linear_solve_of(matvec, b, solve, transpose_solve, symmetric, site));
}

}  // namespace lockstep::internal
