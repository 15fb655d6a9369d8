// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/decompositions_on_gpus.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/matrices.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::ir::on_gpus {
namespace {

using Names = Lowering::Names;
using Of = Lowering::OfSolver;

/// Larger matrices are decomposed by QR iterations, as in JAX, because Jacobi's take longer.
constexpr std::int64_t kMostByJacobi = 1024;

struct Sizes {
  explicit Sizes(const Aval& x)
      : batch(matrices::batch_of(x.shape)),
        m(x.shape[batch.size()]),
        n(x.shape.back()),
        k(std::min(m, n)),
        dtype(x.dtype) {}

  /// A vector for each matrix; a number for each.
  Aval vector(std::int64_t size, DType of) const {
    Shape shape = batch;
    shape.push_back(size);
    return {of, shape};
  }
  Aval number() const { return {DType::kI32, batch}; }
  Aval matrix(std::int64_t rows, std::int64_t columns) const {
    Shape shape = batch;
    shape.insert(shape.end(), {rows, columns});
    return {dtype, shape};
  }

  Shape batch;
  std::int64_t m, n, k;
  DType dtype;
};

/// The values with these names and avals, or NaN for matrices of which the info is not 0.
Names converged(Lowering& out, Names names, std::vector<Aval> avals, const std::string& info,
                const Aval& info_aval) {
  Builder builder("converged");
  std::vector<Value> values;
  for (const Aval& aval : avals) values.push_back(builder.input(aval));
  const Value failed = builder.input(info_aval);
  const Value fine = lax::eq(failed, lax::full_like(failed, 0));
  for (Value& value : values) {
    std::vector<std::int64_t> batch(info_aval.shape.size());
    std::iota(batch.begin(), batch.end(), 0);
    value = lax::select(lax::broadcast_in_dim(fine, value.aval().shape, batch), value,
                        lax::full_like(value, std::numeric_limits<double>::quiet_NaN()));
  }
  names.push_back(info);
  return out.inlined(builder.finish(values), std::move(names));
}

}  // namespace

bool is_used(const Lowering& out, const Aval& x) { return out.has_solver() && x.num_elements() > 0; }

Names lu(Lowering& out, const std::string& x, const Aval& aval) {
  const Sizes size(aval);
  return out.solver_call("getrf", size.m, size.n, {{aval, x}},
                         {{aval}, {size.vector(size.k, DType::kI32)}, {size.vector(size.m, DType::kI32)}});
}

Names eigh(Lowering& out, const std::string& x, const Aval& aval) {
  const Sizes size(aval);
  const Aval w = size.vector(size.n, size.dtype);
  const Names found = out.solver_call("syevd", size.n, size.n, {{aval, x}}, {{aval}, {w}, {size.number()}});
  return converged(out, {found[0], found[1]}, {aval, w}, found[2], size.number());
}

Names svd(Lowering& out, const std::string& x, const Aval& aval, bool vectors) {
  const Sizes size(aval);
  const Aval s = size.vector(size.k, size.dtype), u = size.matrix(size.m, size.k),
             vh = size.matrix(size.k, size.n);
  Names found;
  if (size.k <= kMostByJacobi) {
    // The columns of v are the rows of vh.
    found = out.solver_call("gesvdj", size.m, size.n, {{aval, x}},
                            {{aval}, {s}, {u}, {.aval = vh, .by_columns = false}, {size.number()}});
  } else if (size.m >= size.n) {
    found = out.solver_call("gesvd", size.m, size.n, {{aval, x}}, {{aval}, {s}, {u}, {vh}, {size.number()}});
  } else {
    // That of the transposed matrix, whose u is v.
    const auto transposed = [](const Aval& of, std::string name = "") {
      return Of{of, std::move(name), false};
    };
    found = out.solver_call("gesvd", size.n, size.m, {transposed(aval, x)},
                            {transposed(aval), {s}, transposed(vh), transposed(u), {size.number()}});
    std::swap(found[2], found[3]);
  }
  if (!vectors) return converged(out, {found[1]}, {s}, found[4], size.number());
  return converged(out, {found[2], found[1], found[3]}, {u, s, vh}, found[4], size.number());
}

Names geqrf(Lowering& out, const std::string& x, const Aval& aval) {
  const Sizes size(aval);
  return out.solver_call("geqrf", size.m, size.n, {{aval, x}}, {{aval}, {size.vector(size.k, size.dtype)}});
}

std::string householder_product(Lowering& out, const std::string& x, const Aval& aval,
                                const std::string& taus, const Aval& taus_aval) {
  const Sizes size(aval);
  return out.solver_call("orgqr", size.m, size.n, {{aval, x}, {taus_aval, taus}}, {{aval}}).front();
}

}  // namespace lockstep::ir::on_gpus
