// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/matrices.h"

#include <numeric>

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/dot_general.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::ir::matrices {
namespace {

/// 1 where the comparison `row how column` is true, else 0, with x's shape and dtype.
Value ones_where(const Primitive& (*how)(), const Value& x) {
  const Shape shape = x.aval().shape;  // a copy: new equations move the avals
  const std::int64_t rank = x.aval().rank();
  Value row = lax::iota(x, DType::kI32, shape, rank - 2), column = lax::iota(x, DType::kI32, shape, rank - 1);
  return lax::convert_element_type(lax::apply1<Value>(how(), {row, column}), x.aval().dtype);
}

Value spread(const Value& values, const Shape& shape, std::size_t dimension) {
  std::vector<std::int64_t> dimensions(shape.size() - 1);
  std::iota(dimensions.begin(), dimensions.end(), 0);
  dimensions.back() = static_cast<std::int64_t>(dimension);
  return lax::broadcast_in_dim(values, shape, dimensions);
}

}  // namespace

void check(const Aval& x, bool square) {
  if (x.dtype != DType::kF32 && x.dtype != DType::kF64) {
    fail<DTypeError>("expected f32 or f64 operands, got {}; convert with astype", name(x.dtype));
  }
  const std::size_t rank = x.shape.size();
  if (rank < 2 || (square && x.shape[rank - 1] != x.shape[rank - 2])) {
    fail<ShapeError>("expected {} in the last two dimensions, got {}",
                     square ? "square matrices" : "matrices", to_string(x));
  }
}

ShardingRule by_matrix(std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams&) {
  ShardingRule rule = ShardingRule::replicated(inputs, outputs);
  for (std::size_t d = 0; d + 2 < inputs[0].shape.size(); ++d) {
    const int factor = static_cast<int>(rule.factors.size());
    rule.factors.push_back({inputs[0].shape[d]});
    for (auto& operand : rule.operands) operand[d] = factor;
    for (auto& result : rule.results) result[d] = factor;
  }
  return rule;
}

Shape with_matrix(Shape shape, std::int64_t rows, std::int64_t columns) {
  shape[shape.size() - 2] = rows;
  shape.back() = columns;
  return shape;
}

Shape batch_of(const Shape& shape) { return Shape(shape.begin(), shape.end() - 2); }

std::int64_t rows(const Value& x) { return x.aval().shape[x.aval().shape.size() - 2]; }
std::int64_t columns(const Value& x) { return x.aval().shape.back(); }

Value transposed(const Value& x) {
  std::vector<std::int64_t> order(x.aval().shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return lax::transpose(x, order);
}

Value product(const Value& x, const Value& y) {
  const std::int64_t rank = x.aval().rank();
  std::vector<std::int64_t> batch(static_cast<std::size_t>(rank - 2));
  std::iota(batch.begin(), batch.end(), 0);
  return lax::dot_general(x, y, {{rank - 1}, {rank - 2}, batch, batch});
}

Value lower_part(const Value& x) { return lax::mul(x, ones_where(ge_p, x)); }
Value below_diagonal(const Value& x) { return lax::mul(x, ones_where(gt_p, x)); }
Value upper_part(const Value& x) { return lax::mul(x, ones_where(le_p, x)); }
Value eye(const Value& like) { return ones_where(eq_p, like); }

Value diagonal(const Value& x) {
  return lax::reduce_sum(lax::mul(x, eye(x)),
                         {rows(x) < columns(x) ? x.aval().rank() - 1 : x.aval().rank() - 2});
}

Value for_columns(const Value& values, const Shape& shape) { return spread(values, shape, shape.size() - 1); }
Value for_rows(const Value& values, const Shape& shape) { return spread(values, shape, shape.size() - 2); }

Value part(const Value& x, std::int64_t first_row, std::int64_t end_row, std::int64_t first_column,
           std::int64_t end_column) {
  const Shape shape = x.aval().shape;
  Shape start(shape.size(), 0);
  start[shape.size() - 2] = first_row;
  start.back() = first_column;
  return lax::slice(x, start, with_matrix(shape, end_row, end_column));
}

std::function<std::vector<Value>(const BatchCall&)> batching(const Primitive& (*self)()) {
  return [self](const BatchCall& call) { return rules::batch_elementwise(self(), call); };
}

std::string triangle(Lowering& out, const std::string& x, DType dtype, const Shape& shape,
                     std::string_view direction) {
  const std::string indices = mlir_type(DType::kI32, shape);
  auto iota = [&](std::size_t dimension) {
    return out.op("stablehlo.iota", {}, {}, indices, fmt::format("iota_dimension = {} : i64", dimension));
  };
  const std::string row = iota(shape.size() - 2), column = iota(shape.size() - 1);
  const std::string kept = out.compare(direction, row, column, DType::kI32, shape);
  return out.select(kept, x, out.splat(Scalar::of(0.0), dtype, shape), dtype, shape);
}

void fail_without_lapack(std::string_view operation, bool may_call) {
  const std::string site = CallSiteScope::current().to_string();
  if (!may_call) {
    fail(
        "[linalg::{}] is computed by LAPACK only, which programs for these devices cannot call (at {}); "
        "compute it on CPUs",
        operation, site);
  }
  fail(
      "[linalg::{}] is computed by LAPACK only, which is not available ({}) (at {}); install OpenBLAS on "
      "every host (Debian: libopenblas0-pthread)",
      operation, lapack::description(), site);
}

}  // namespace lockstep::ir::matrices
