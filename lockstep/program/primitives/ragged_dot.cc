// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/ragged_dot.h"

#include <algorithm>
#include <numeric>

#include "lockstep/base/fail.h"
#include "lockstep/onednn/onednn.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/dot_general.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::ir {
namespace {

using Combine = ShardingRule::Combine;

bool is_transposed(const OpParams& params) { return params.as<RaggedDotParams>().rhs_is_transposed; }
std::int64_t groups_of(const OpParams& params) { return params.as<RaggedContractingDotParams>().groups; }

void check_operands(std::span<const Aval> inputs, std::int64_t rhs_rank) {
  rules::same_dtypes(inputs.first(2));
  const Aval &x = inputs[0], &y = inputs[1], &group = inputs[2];
  if (x.dtype == DType::kBool) fail<DTypeError>("expected numbers, got {}", to_string(x));
  if (group.dtype != DType::kI32)
    fail<DTypeError>("expected i32 as the rows' groups, got {}", to_string(group));
  if (x.rank() != 2 || y.rank() != rhs_rank || group.shape != Shape{x.shape[0]})
    fail<ShapeError>("expected rows [m,k], {} and groups [m], got {}, {} and {}",
                     rhs_rank == 3 ? "matrices [groups,k,n]" : "rows [m,n]", to_string(x), to_string(y),
                     to_string(group));
}

Aval result_of(std::span<const Aval> inputs, Shape shape) {
  return {inputs[0].dtype, std::move(shape), inputs[0].weak_type && inputs[1].weak_type, {}};
}

std::vector<Aval> dot_shape(std::span<const Aval> inputs, const OpParams& params) {
  check_operands(inputs, 3);
  const Shape &x = inputs[0].shape, &y = inputs[1].shape;
  const std::size_t k = is_transposed(params) ? 2 : 1;
  if (x[1] != y[k]) fail<ShapeError>("expected matrices with {} rows, got {}", x[1], to_string(inputs[1]));
  return {result_of(inputs, {x[0], y[3 - k]})};
}

std::vector<Aval> contracting_shape(std::span<const Aval> inputs, const OpParams& params) {
  check_operands(inputs, 2);
  const Shape &x = inputs[0].shape, &y = inputs[1].shape;
  if (x[0] != y[0])
    fail<ShapeError>("expected the same number of rows, got {} and {}", to_string(inputs[0]),
                     to_string(inputs[1]));
  return {result_of(inputs, {groups_of(params), x[1], y[1]})};
}

/// Factors are m, k and n.
ShardingRule dot_sharding(std::span<const Aval> inputs, std::span<const Aval> outputs,
                          const OpParams& params) {
  ShardingRule rule = ShardingRule::replicated(inputs, outputs);
  const Shape &x = inputs[0].shape, &out = outputs[0].shape;
  rule.factors = {{x[0], Combine::kNone}, {x[1], Combine::kSum}, {out[1], Combine::kNone}};
  const int whole = ShardingRule::kWhole;
  rule.operands = {{0, 1}, {whole, 1, 2}, {0}};
  if (is_transposed(params)) rule.operands[1] = {whole, 2, 1};
  rule.results = {{0, 2}};
  return rule;
}

ShardingRule contracting_sharding(std::span<const Aval> inputs, std::span<const Aval> outputs,
                                  const OpParams&) {
  ShardingRule rule = ShardingRule::replicated(inputs, outputs);
  const Shape &x = inputs[0].shape, &y = inputs[1].shape;
  rule.factors = {{x[0], Combine::kSum}, {x[1], Combine::kNone}, {y[1], Combine::kNone}};
  rule.operands = {{0, 1}, {0, 2}, {0}};
  rule.results = {{ShardingRule::kWhole, 1, 2}};
  return rule;
}

Tangents dot_transpose(const TransposeCall& c) {
  const Value &ct = *c.cotangents[0], &group = *c.operands[2].value;
  const bool transposed = is_transposed(c.params);
  if (c.operands[0].linear()) return {lax::ragged_dot(ct, *c.operands[1].value, group, !transposed), {}, {}};
  const Value& x = *c.operands[0].value;
  const std::int64_t groups = c.operands[1].aval.shape[0];
  return {{},
          transposed ? lax::ragged_contracting_dot(ct, x, group, groups)
                     : lax::ragged_contracting_dot(x, ct, group, groups),
          {}};
}

Tangents contracting_transpose(const TransposeCall& c) {
  const Value &ct = *c.cotangents[0], &group = *c.operands[2].value;
  if (c.operands[0].linear())
    return {lax::ragged_dot(*c.operands[1].value, ct, group, /*is_transposed=*/true), {}, {}};
  return {{}, lax::ragged_dot(*c.operands[0].value, ct, group), {}};
}

/// The operands of all examples as those of one call with `groups` matrices for each example if those differ.
/// Rows that are in no group stay so.
struct OneCall {
  std::int64_t examples;

  Value joined(const Value& x, bool batched) const {
    Shape shape = x.aval().shape;
    if (!batched) {
      shape.insert(shape.begin(), examples);
      std::vector<std::int64_t> dimensions(shape.size() - 1);
      std::iota(dimensions.begin(), dimensions.end(), 1);
      return joined(lax::broadcast_in_dim(x, shape, dimensions), true);
    }
    shape[1] *= shape[0];
    shape.erase(shape.begin());
    return lax::reshape(x, shape);
  }
  Value apart(const Value& x) const {
    Shape shape = x.aval().shape;
    shape[0] /= examples;
    shape.insert(shape.begin(), examples);
    return lax::reshape(x, shape);
  }
  Value groups_of_examples(const Value& group, bool batched, std::int64_t groups) const {
    const Value all = joined(group, batched);
    const std::int64_t rows = all.aval().shape[0] / examples;
    const Value example = lax::reshape(lax::iota(all, DType::kI32, {examples, rows}, 0), all.aval().shape);
    const Value none = lax::full_like(all, -1), count = lax::full_like(all, static_cast<double>(groups));
    const Value known = lax::logical_and(lax::ge(all, lax::full_like(all, 0)), lax::lt(all, count));
    return lax::select(known, lax::add(all, lax::mul(example, count)), none);
  }
};

std::vector<Value> dot_batching(const BatchCall& c) {
  const OneCall one{c.size};
  const Value x = one.joined(c.inputs[0], c.batched[0]);
  if (!c.batched[1]) {
    const Value group = one.joined(c.inputs[2], c.batched[2]);
    return {one.apart(lax::ragged_dot(x, c.inputs[1], group, is_transposed(c.params)))};
  }
  const Value group = one.groups_of_examples(c.inputs[2], c.batched[2], c.inputs[1].aval().shape[1]);
  return {one.apart(lax::ragged_dot(x, one.joined(c.inputs[1], true), group, is_transposed(c.params)))};
}

std::vector<Value> contracting_batching(const BatchCall& c) {
  const OneCall one{c.size};
  const std::int64_t groups = groups_of(c.params);
  return {one.apart(lax::ragged_contracting_dot(
      one.joined(c.inputs[0], c.batched[0]), one.joined(c.inputs[1], c.batched[1]),
      one.groups_of_examples(c.inputs[2], c.batched[2], groups), groups * c.size))};
}

double products(std::int64_t m, std::int64_t k, std::int64_t n) {
  return 2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
}

/// [m, groups, k]: the rows of x at their groups, and 0 at all others.
Value spread(const Value& x, const Value& group, std::int64_t groups) {
  const Shape shape = {x.aval().shape[0], groups, x.aval().shape[1]};
  const Value numbers = lax::iota(x, DType::kI32, shape, 1);
  const Value mine = lax::eq(lax::broadcast_in_dim(group, shape, {0}), numbers);
  const Value rows = lax::broadcast_in_dim(x, shape, {0, 2});
  return lax::select(mine, rows, lax::full_like(rows, 0));
}

/// By oneDNN where it is worth its call: where `spread` would have many elements.
std::optional<std::string> by_onednn(Lowering& out, const Equation& e, std::string_view operation,
                                     std::int64_t groups) {
  constexpr std::int64_t kFewest = 1 << 12;
  const Aval& x = out.operand_aval(e, 0);
  if (!out.onednn_takes(x.dtype, x.dtype) || !onednn::is_available() ||
      out.result_aval(e).num_elements() == 0 || x.num_elements() * groups < kFewest)
    return std::nullopt;
  std::vector<std::pair<std::string, Aval>> operands;
  for (std::size_t i = 0; i < 3; ++i) operands.emplace_back(out.operand(e, i), out.operand_aval(e, i));
  return out.onednn_call(fmt::format("operation = \"{}\"", operation), operands, {{out.result_aval(e)}})
      .front();
}

}  // namespace

const Primitive& ragged_dot_p() {
  static const Primitive p = {
      .name = "ragged_dot",
      .shape = dot_shape,
      .sharding = dot_sharding,
      .jvp = rules::bilinear_jvp(ragged_dot_p),
      .transpose = dot_transpose,
      .batching = dot_batching,
      .flops = [](std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams&) -> double {
        return products(inputs[0].shape[0], inputs[0].shape[1], outputs[0].shape[1]);
      },
      .zero_padding = ZeroPadding::kAddsNothing,
      .exchange = no_exchange,
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        const bool transposed = is_transposed(e.params);
        const std::int64_t groups = out.operand_aval(e, 1).shape[0];
        if (const auto call = by_onednn(out, e, transposed ? "ragged_dot_transposed" : "ragged_dot", groups))
          return {*call};
        return out.composed(e, "ragged_dot", [&](const std::vector<Value>& v) {
          const std::int64_t k = transposed ? 2 : 1;
          return lax::dot_general(spread(v[0], v[2], groups), v[1], {{1, 2}, {0, k}, {}, {}});
        });
      },
      .linear = {.together = {{0}, {1}}},
  };
  return p;
}

const Primitive& ragged_contracting_dot_p() {
  static const Primitive p = {
      .name = "ragged_contracting_dot",
      .shape = contracting_shape,
      .sharding = contracting_sharding,
      .jvp = rules::bilinear_jvp(ragged_contracting_dot_p),
      .transpose = contracting_transpose,
      .batching = contracting_batching,
      .flops = [](std::span<const Aval> inputs, std::span<const Aval>, const OpParams&) -> double {
        return products(inputs[0].shape[0], inputs[0].shape[1], inputs[1].shape[1]);
      },
      .zero_padding = ZeroPadding::kAddsNothing,
      .exchange = no_exchange,
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        const std::int64_t groups = groups_of(e.params);
        if (const auto call = by_onednn(out, e, "ragged_contracting_dot", groups)) return {*call};
        return out.composed(e, "ragged_contracting_dot", [&](const std::vector<Value>& v) {
          return lax::dot_general(spread(v[0], v[2], groups), v[1], {{0}, {0}, {}, {}});
        });
      },
      .linear = {.together = {{0}, {1}}},
  };
  return p;
}

}  // namespace lockstep::ir
