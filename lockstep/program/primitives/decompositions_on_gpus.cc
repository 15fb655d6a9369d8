// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/decompositions_on_gpus.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/cuda/solver.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/matrices.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::ir::on_gpus {
namespace {

using Names = Lowering::Names;

/// An operand or result of cuSOLVER.
struct Of {
  Aval aval;
  std::string name = {};   ///< of an operand
  bool by_columns = true;  ///< a matrix in column-major order, else the transposed one is in it
};

/// Larger matrices are decomposed by QR iterations, as in JAX, because Jacobi's take longer.
constexpr std::int64_t kMostByJacobi = 1024;

/// Several matrices up to this size are decomposed by one call. cuSOLVER's limit.
constexpr std::int64_t kMostInBatches = 32;

struct Sizes {
  explicit Sizes(const Aval& x)
      : shape(x.shape),
        batch(matrices::batch_of(x.shape)),
        m(x.shape[batch.size()]),
        n(x.shape.back()),
        k(std::min(m, n)),
        dtype(x.dtype) {}

  /// A vector for each matrix; a number for each.
  Aval vector(std::int64_t size, DType of) const {
    Shape all = batch;
    all.push_back(size);
    return {of, all};
  }
  Aval number() const { return {DType::kI32, batch}; }
  Aval matrix(std::int64_t rows, std::int64_t columns) const {
    return {dtype, matrices::with_matrix(shape, rows, columns)};
  }

  Shape shape, batch;
  std::int64_t m, n, k;
  DType dtype;
};

std::string types_of(const std::vector<Of>& all) {
  Names names;
  for (const Of& each : all) names.push_back(mlir_type(each.aval));
  return fmt::format("({})", fmt::join(names, ", "));
}

std::string layouts_of(const std::vector<Of>& all, std::size_t rank_of_matrices) {
  Names names;
  for (const Of& each : all) {
    std::vector<std::int64_t> order(each.aval.shape.size());
    std::iota(order.rbegin(), order.rend(), 0);
    if (each.by_columns && order.size() == rank_of_matrices) std::swap(order[0], order[1]);
    names.push_back(mlir_layout(order));
  }
  return fmt::format("[{}]", fmt::join(names, ", "));
}

/// Writes a call of a routine of cuSOLVER (lockstep/cuda/solver.h) for matrices that it sees with so many
/// rows and columns. The first result is in the place of the first operand.
Names solver_call(Lowering& out, std::string_view routine, std::int64_t rows, std::int64_t columns,
                  const std::vector<Of>& operands, const std::vector<Of>& results) {
  const std::size_t rank = operands[0].aval.shape.size();
  const bool one = results.size() == 1;
  Names names, all;
  for (const Of& operand : operands) names.push_back(operand.name);
  const std::string name = out.fresh();
  out.line(
      fmt::format("{}{} = \"stablehlo.custom_call\"({}) {{call_target_name = \"{}\", api_version = 4 : i32, "
                  "operand_layouts = {}, "
                  "result_layouts = {}, output_operand_aliases = "
                  "[#stablehlo.output_operand_alias<output_tuple_indices = [{}], "
                  "operand_index = 0, operand_tuple_indices = []>], backend_config = {{routine = \"{}\", "
                  "rows = {} : i64, "
                  "columns = {} : i64}}}} : {} -> {}",
                  name, one ? "" : fmt::format(":{}", results.size()), fmt::join(names, ", "),
                  cuda::kSolverTarget, layouts_of(operands, rank), layouts_of(results, rank), one ? "" : "0",
                  routine, rows, columns, types_of(operands), types_of(results)));
  for (std::size_t i = 0; i < results.size(); ++i) all.push_back(one ? name : fmt::format("{}#{}", name, i));
  return all;
}

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
  return solver_call(out, "getrf", size.m, size.n, {{aval, x}},
                     {{aval}, {size.vector(size.k, DType::kI32)}, {size.vector(size.m, DType::kI32)}});
}

Names eigh(Lowering& out, const std::string& x, const Aval& aval) {
  const Sizes size(aval);
  const Aval w = size.vector(size.n, size.dtype);
  const Names found = solver_call(out, "syevd", size.n, size.n, {{aval, x}}, {{aval}, {w}, {size.number()}});
  return converged(out, {found[0], found[1]}, {aval, w}, found[2], size.number());
}

Names svd(Lowering& out, const std::string& x, const Aval& aval, bool vectors) {
  const Sizes size(aval);
  const Aval s = size.vector(size.k, size.dtype), u = size.matrix(size.m, size.k),
             vh = size.matrix(size.k, size.n);
  Names found;
  if (std::max(size.m, size.n) <= kMostInBatches && aval.num_elements() > size.m * size.n) {
    const Aval all_u = size.matrix(size.m, size.m), all_vh = size.matrix(size.n, size.n);
    found = solver_call(out, "gesvdjBatched", size.m, size.n, {{aval, x}},
                        {{aval}, {s}, {all_u}, {.aval = all_vh, .by_columns = false}, {size.number()}});
    Builder builder("some_vectors");
    const auto first = [&](const Aval& all, const Shape& some) {
      return lax::slice(builder.input(all), std::vector<std::int64_t>(some.size(), 0), some);
    };
    const std::vector<Value> some = {first(all_u, u.shape), first(all_vh, vh.shape)};
    const Names names = out.inlined(builder.finish(some), {found[2], found[3]});
    found[2] = names[0];
    found[3] = names[1];
  } else if (size.k <= kMostByJacobi) {
    // The columns of v are the rows of vh.
    found = solver_call(out, "gesvdj", size.m, size.n, {{aval, x}},
                        {{aval}, {s}, {u}, {.aval = vh, .by_columns = false}, {size.number()}});
  } else if (size.m >= size.n) {
    found = solver_call(out, "gesvd", size.m, size.n, {{aval, x}}, {{aval}, {s}, {u}, {vh}, {size.number()}});
  } else {
    // That of the transposed matrix, whose u is v.
    const auto transposed = [](const Aval& of, std::string name = "") {
      return Of{of, std::move(name), false};
    };
    found = solver_call(out, "gesvd", size.n, size.m, {transposed(aval, x)},
                        {transposed(aval), {s}, transposed(vh), transposed(u), {size.number()}});
    std::swap(found[2], found[3]);
  }
  if (!vectors) return converged(out, {found[1]}, {s}, found[4], size.number());
  return converged(out, {found[2], found[1], found[3]}, {u, s, vh}, found[4], size.number());
}

Names geqrf(Lowering& out, const std::string& x, const Aval& aval) {
  const Sizes size(aval);
  return solver_call(out, "geqrf", size.m, size.n, {{aval, x}}, {{aval}, {size.vector(size.k, size.dtype)}});
}

std::string householder_product(Lowering& out, const std::string& x, const Aval& aval,
                                const std::string& taus, const Aval& taus_aval) {
  const Sizes size(aval);
  return solver_call(out, "orgqr", size.m, size.n, {{aval, x}, {taus_aval, taus}}, {{aval}}).front();
}

}  // namespace lockstep::ir::on_gpus
