// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/linalg_composed.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "lockstep/base/call_site_reset.h"
#include "lockstep/program/primitives/complex.h"
#include "lockstep/program/primitives/decompositions.h"
#include "lockstep/program/primitives/decompositions_on_gpus.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/linalg.h"
#include "lockstep/program/primitives/matrices.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/reverse.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::ir::composed {
namespace {

using namespace matrices;

Value scaled(const Value& x, double by) { return lax::mul(x, lax::full_like(x, by)); }

/// A value for each matrix, in the shape of its columns.
Value for_each_column(const Value& values, const Shape& columns) {
  std::vector<std::int64_t> dimensions(columns.size() - 1);
  std::iota(dimensions.begin(), dimensions.end(), 0);
  return lax::broadcast_in_dim(values, columns, dimensions);
}

/// Frobenius's norm of each matrix, in x's shape.
Value size_of(const Value& x) {
  const Shape shape = x.aval().shape;
  const std::int64_t rank = x.aval().rank();
  Value size = lax::sqrt(lax::reduce_sum(lax::mul(x, x), {rank - 2, rank - 1}));
  return for_columns(for_each_column(size, Shape(shape.begin(), shape.end() - 1)), shape);
}

/// Ogita and Aishima, "Iterative refinement for symmetric eigenvalue decomposition" (2018).
std::pair<Value, Value> refined(const Value& x, const Value& v, const Value& w_found) {
  const Shape shape = x.aval().shape;
  const Value identity = eye(x), r = lax::sub(identity, product(transposed(v), v)),
              s = product(transposed(v), product(x, v));
  const Value of_r = diagonal(r), w = lax::div(diagonal(s), lax::sub(lax::full_like(w_found, 1), of_r));
  const Value columns = for_columns(w, shape);
  const Value near = scaled(
      lax::add(size_of(lax::sub(s, lax::mul(identity, columns))), lax::mul(size_of(x), size_of(r))), 2);
  const Value gap = lax::sub(columns, for_rows(w, shape)), close = lax::le(lax::abs(gap), near);
  const Value turn = lax::select(
      close, scaled(r, 0.5),
      lax::div(lax::add(s, lax::mul(columns, r)), lax::select(close, lax::full_like(gap, 1), gap)));
  return {lax::add(v, product(v, turn)), w};
}

/// Columns that are orthonormal up to some that may be anything become orthonormal, the others as they were.
Value orthonormal(const Value& x) {
  const std::vector<Value> parts = lax::qr(x);
  const Value signs = diagonal(parts[1]);
  const Value turned = lax::select(lax::lt(signs, lax::full_like(signs, 0)), lax::full_like(signs, -1),
                                   lax::full_like(signs, 1));
  return lax::mul(parts[0], for_columns(turned, parts[0].aval().shape));
}

/// The decomposition of a square matrix x: the eigenvalues of [0 x; xᵀ 0] are the singular values of x and
/// their negatives, of the eigenvectors [u; v] / sqrt(2).
std::vector<Value> svd_of_square(const Value& x) {
  const std::int64_t n = columns(x), rank = x.aval().rank();
  const Value zero = lax::full_like(x, 0);
  auto joined = [](const Value& a, const Value& b, std::int64_t dimension) {
    const Value both[] = {a, b};
    return lax::concatenate(std::span<const Value>(both), dimension);
  };
  const Value whole = joined(joined(zero, x, rank - 1), joined(transposed(x), zero, rank - 1), rank - 2);
  const std::vector<Value> pair = lax::eigh(whole);
  // The upper half of the eigenvalues, falling.
  auto half = [&](std::int64_t from_row) {
    const Value columns = lax::rev(part(pair[0], from_row, from_row + n, n, 2 * n), {rank - 1});
    return orthonormal(scaled(columns, std::sqrt(2.0)));
  };
  Shape start(static_cast<std::size_t>(rank - 1), 0), limit = pair[1].aval().shape;
  start.back() = n;
  const Value values = lax::rev(lax::slice(pair[1], start, limit), {rank - 2});
  const Value u = half(0), v = half(n);
  return {u, lax::max(values, lax::full_like(values, 0)), transposed(v)};
}

std::vector<Value> svd_of(const Value& x) {
  const std::int64_t m = rows(x), n = columns(x);
  if (m < n) {
    const std::vector<Value> other = svd_of(transposed(x));
    return {transposed(other[2]), other[1], transposed(other[0])};
  }
  if (m == n) return svd_of_square(x);
  const std::vector<Value> reduced = lax::qr(x);
  const std::vector<Value> inner = svd_of_square(reduced[1]);
  return {product(reduced[0], inner[0]), inner[1], inner[2]};
}

/// One step of Gauss's elimination with a choice of rows: of k, the matrices, pivots and permutation.
Program elimination_step(const Aval& x) {
  const std::size_t rank = x.shape.size();
  const auto last = static_cast<std::int64_t>(rank) - 1;
  const Shape &shape = x.shape, batch = batch_of(shape);
  const std::int64_t m = shape[rank - 2], n = shape[rank - 1];
  const auto with = [&](std::int64_t size) {
    Shape out = batch;
    out.push_back(size);
    return out;
  };
  Builder builder("eliminate");
  const Value k = builder.input({DType::kI32, {}}), a = builder.input({x.dtype, shape}),
              pivots = builder.input({DType::kI32, with(std::min(m, n))}),
              permutation = builder.input({DType::kI32, with(m)});
  const auto whole = [](const Value& scalar, const Shape& to) {
    return lax::broadcast_in_dim(scalar, to, {});
  };
  const auto places = [&](const Shape& of, std::int64_t dimension) {
    return lax::iota(k, DType::kI32, of, dimension);
  };
  const Value row = places(shape, last - 1), column = places(shape, last), k_everywhere = whole(k, shape);
  const auto only = [&](const Value& which, const Value& of) {
    return lax::select(which, of, lax::full_like(of, 0));
  };

  // The row of the largest element in column k, from row k on.
  const Value in_column = lax::reduce_sum(only(lax::eq(column, k_everywhere), a), {last});
  const Value rows = places(with(m), last - 1), k_rows = whole(k, with(m));
  const Value size = lax::select(lax::ge(rows, k_rows), lax::abs(in_column), lax::full_like(in_column, -1));
  const Value found = lax::argmax(size, last - 1);

  // It changes places with row k.
  const auto changed = [&](const Value& of, const Value& place, const Value& k_place, const Value& i_place,
                           std::int64_t dimension, const auto& spread) {
    const Value is_k = lax::eq(place, k_place), is_i = lax::eq(place, i_place);
    const Value of_k = lax::reduce_sum(only(is_k, of), {dimension}),
                of_i = lax::reduce_sum(only(is_i, of), {dimension});
    return lax::select(is_k, spread(of_i), lax::select(is_i, spread(of_k), of));
  };
  const Value i_rows = for_each_column(found, with(m));
  const Value b = changed(a, row, k_everywhere, for_rows(i_rows, shape), last - 1,
                          [&](const Value& v) { return for_columns(v, shape); });
  const Value next_permutation = changed(permutation, rows, k_rows, i_rows, last - 1,
                                         [&](const Value& v) { return for_each_column(v, with(m)); });
  const Value next_pivots =
      lax::select(lax::eq(places(pivots.aval().shape, last - 1), whole(k, pivots.aval().shape)),
                  for_each_column(found, pivots.aval().shape), pivots);

  // Multiples of row k are subtracted from the rows below, so that column k becomes zero there.
  const Value is_k_row = lax::eq(row, k_everywhere), is_k_column = lax::eq(column, k_everywhere);
  const Value top = lax::reduce_sum(only(is_k_row, b), {last - 1});  // a row
  const Value pivot = for_each_column(
      lax::reduce_sum(only(lax::eq(places(with(n), last - 1), whole(k, with(n))), top), {last - 1}), with(m));
  const Value side = lax::reduce_sum(only(is_k_column, b), {last});  // a column
  const Value is_zero = lax::eq(pivot, lax::full_like(pivot, 0)), below = lax::gt(rows, k_rows);
  const Value times =
      lax::select(lax::logical_and(below, lax::logical_not(is_zero)),
                  lax::div(side, lax::select(is_zero, lax::full_like(pivot, 1), pivot)), side);
  const Value c = lax::select(is_k_column, for_rows(times, shape), b);
  const Value away = lax::mul(for_rows(times, shape), for_columns(top, shape));
  const Value inner = lax::logical_and(lax::gt(row, k_everywhere), lax::gt(column, k_everywhere));
  const Value next = lax::select(inner, lax::sub(c, away), c);
  const Value results[] = {next, next_pivots, next_permutation};
  return builder.finish(results);
}

}  // namespace

Program refined_eigh(const Aval& x) {
  CallSiteReset reset;
  Builder builder("refined_eigh");
  Shape values(x.shape.begin(), x.shape.end() - 1);
  const Value matrices = builder.input({x.dtype, x.shape}), v = builder.input({x.dtype, x.shape}),
              w = builder.input({x.dtype, values});
  const auto [better_v, better_w] = refined(matrices, v, w);
  const Value results[] = {better_v, better_w};
  return builder.finish(results);
}

Program svd(const Aval& x, bool vectors) {
  CallSiteReset reset;
  Builder builder("svd");
  const std::vector<Value> all = svd_of(builder.input({x.dtype, x.shape}));
  return builder.finish(vectors ? all : std::vector<Value>{all[1]});
}

Lowering::Names lu(Lowering& out, const std::string& matrices, const Aval& x) {
  CallSiteReset reset;
  if (x.num_elements() == 0) {
    Shape pivots = batch_of(x.shape), permutation = pivots;
    const std::int64_t m = x.shape[pivots.size()];
    pivots.push_back(std::min(m, x.shape.back()));
    permutation.push_back(m);
    return {matrices, out.splat(Scalar::of(0), DType::kI32, pivots),
            out.op("stablehlo.iota", {}, {}, mlir_type(DType::kI32, permutation),
                   fmt::format("iota_dimension = {} : i64", permutation.size() - 1))};
  }
  const Program step = elimination_step(x);
  const std::vector<Aval> avals = step.input_avals();
  std::vector<std::string> types;
  for (const Aval& aval : avals) types.push_back(mlir_type(aval));
  const std::string zero = out.splat(Scalar::of(0), DType::kI32, {}),
                    one = out.splat(Scalar::of(1), DType::kI32, {}),
                    count = out.splat(Scalar::of(avals[2].shape.back()), DType::kI32, {}),
                    pivots = out.splat(Scalar::of(0), DType::kI32, avals[2].shape);
  const std::string permutation =
      out.op("stablehlo.iota", {}, {}, types[3],
             fmt::format("iota_dimension = {} : i64", static_cast<std::int64_t>(avals[3].shape.size()) - 1));
  const Lowering::Names last = out.loop(
      {zero, matrices, pivots, permutation}, types,
      [&](const Lowering::Names& now) { return out.compare("LT", now[0], count, DType::kI32, {}); },
      [&](const Lowering::Names& now) {
        Lowering::Names next = out.inlined(step, now);
        const std::string operands[] = {now[0], one}, operand_types[] = {types[0], types[0]};
        next.insert(next.begin(), out.op("stablehlo.add", operands, operand_types, types[0]));
        return next;
      });
  return {last[1], last[2], last[3]};
}

Lowering::Names geqrf(Lowering& out, const std::string& matrices, const Aval& x) {
  if (on_gpus::is_used(out, x)) return on_gpus::geqrf(out, matrices, x);
  Shape taus = batch_of(x.shape);
  taus.push_back(std::min(x.shape[taus.size()], x.shape.back()));
  const std::string both = out.fresh(), type = mlir_type(x);
  out.line(
      fmt::format("{}:2 = \"stablehlo.custom_call\"({}) {{call_target_name = \"Qr\"}} : ({}) -> ({}, {})",
                  both, matrices, type, type, mlir_type(x.dtype, taus)));
  return {both + "#0", both + "#1"};
}

std::string householder_product(Lowering& out, const std::string& reflections, const Aval& x,
                                const std::string& taus, const Aval& taus_aval) {
  if (on_gpus::is_used(out, x) && taus_aval.num_elements() > 0)
    return on_gpus::householder_product(out, reflections, x, taus, taus_aval);
  return out.op("stablehlo.custom_call", {{reflections, taus}}, {{mlir_type(x), mlir_type(taus_aval)}},
                mlir_type(x), "call_target_name = \"ProductOfElementaryHouseholderReflectors\"");
}

}  // namespace lockstep::ir::composed
