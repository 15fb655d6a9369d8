// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/rules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::ir::rules {

void same_shapes(std::span<const Aval> inputs) {
  for (const Aval& aval : inputs) {
    if (aval.shape != inputs.front().shape) {
      fail<ShapeError>("expected operands of one shape, got {} and {}; broadcast or reshape one of them",
                       to_string(inputs.front()), to_string(aval));
    }
  }
}

void same_dtypes(std::span<const Aval> inputs) {
  for (const Aval& aval : inputs) {
    if (aval.dtype != inputs.front().dtype) {
      fail<DTypeError>("expected operands of one dtype, got {} and {}; convert one with astype",
                       to_string(inputs.front()), to_string(aval));
    }
  }
}

std::function<Tangents(const JvpCall&)> unary_jvp(UnaryTangent tangent) {
  return [tangent = std::move(tangent)](const JvpCall& call) -> Tangents {
    if (!call.tangents[0]) return {std::nullopt};
    return {tangent(*call.tangents[0], call.inputs[0], call.outputs[0])};
  };
}

std::function<Tangents(const JvpCall&)> linear_jvp(const Primitive& (*self)()) {
  return [self](const JvpCall& call) -> Tangents {
    if (!call.tangents[0]) return {std::nullopt};
    std::vector<Value> inputs(call.inputs.begin(), call.inputs.end());
    inputs[0] = *call.tangents[0];
    return {apply_primitive(self(), call.params, std::span<const Value>(inputs)).front()};
  };
}

std::function<Tangents(const JvpCall&)> bilinear_jvp(const Primitive& (*self)()) {
  return [self](const JvpCall& call) -> Tangents {
    std::optional<Value> sum;
    for (const std::size_t i : {0, 1}) {
      if (!call.tangents[i]) continue;
      std::vector<Value> inputs(call.inputs.begin(), call.inputs.end());
      inputs[i] = *call.tangents[i];
      const Value term = apply_primitive(self(), call.params, std::span<const Value>(inputs)).front();
      sum = sum ? lax::add(*sum, term) : term;
    }
    return {sum};
  };
}

Primitive linear_in(std::vector<std::vector<std::size_t>> together, Primitive primitive) {
  primitive.linear.together = std::move(together);
  return primitive;
}

std::vector<Value> batch_elementwise(const Primitive& primitive, const BatchCall& call) {
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    inputs.push_back(call.batched[i] ? call.inputs[i] : broadcast_leading(call.inputs[i], call.size));
  }
  return call.builder.emit(primitive, call.params, inputs);
}

std::vector<Value> operands_of_all_examples(const BatchCall& call, VmapMethod method) {
  std::vector<Value> operands(call.inputs.begin(), call.inputs.end());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (call.batched[i]) continue;
    operands[i] = method == VmapMethod::kExpandDims
                      ? lax::reshape(operands[i], prepended(1, operands[i].aval().shape))
                      : broadcast_leading(operands[i], call.size);
  }
  return operands;
}

Value example(const Value& x, std::int64_t i) {
  const Shape& shape = x.aval().shape;
  std::vector<std::int64_t> start(shape.size(), 0), limit = shape;
  start[0] = i;
  limit[0] = i + 1;
  return lax::reshape(lax::slice(x, start, limit), Shape(shape.begin() + 1, shape.end()));
}

Aval with_shape(const Aval& aval, Shape shape) { return {aval.dtype, std::move(shape), aval.weak_type, {}}; }

Value zeros(const Value& like, const Aval& aval) {
  return lax::full(like, is_inexact(aval.dtype) ? Scalar::of(0.0) : Scalar::of(0), aval.dtype, aval.shape);
}

void check_rank(std::size_t given, const Aval& aval, std::string_view what) {
  if (given != aval.shape.size()) {
    fail<ShapeError>("expected {} for each of the {} dimensions of {}, got {}", what, aval.shape.size(),
                     to_string(aval), given);
  }
}

ShardingRule keeping(std::span<const Aval> inputs, std::span<const Aval> outputs,
                     const std::function<bool(std::size_t dimension)>& keeps) {
  ShardingRule rule = ShardingRule::replicated(inputs, outputs);
  for (std::size_t d = 0; d < inputs[0].shape.size(); ++d) {
    if (!keeps(d)) continue;
    rule.operands[0][d] = rule.results[0][d] = static_cast<int>(rule.factors.size());
    rule.factors.push_back({inputs[0].shape[d]});
  }
  return rule;
}

Value broadcast_leading(const Value& x, std::int64_t size) {
  std::vector<std::int64_t> dimensions;
  for (std::int64_t i = 0; i < x.aval().rank(); ++i) dimensions.push_back(i + 1);
  return lax::broadcast_in_dim(x, prepended(size, x.aval().shape), dimensions);
}

std::vector<std::int64_t> shifted(std::vector<std::int64_t> dimensions) {
  for (std::int64_t& dimension : dimensions) ++dimension;
  return dimensions;
}

std::vector<std::int64_t> prepended(std::int64_t value, std::vector<std::int64_t> values) {
  values.insert(values.begin(), value);
  return values;
}

Scalar extreme(DType dtype, int sign) {
  const int bits = static_cast<int>(size_of(dtype)) * 8;
  switch (info(dtype).kind) {
    case DTypeKind::kBool:
      return Scalar::of(sign > 0);
    case DTypeKind::kUnsigned:
      return Scalar::of(sign < 0 ? std::int64_t{0}
                                 : static_cast<std::int64_t>(~std::uint64_t{0} >> (64 - bits)));
    case DTypeKind::kSigned: {
      std::int64_t highest = std::numeric_limits<std::int64_t>::max() >> (64 - bits);
      return Scalar::of(sign > 0 ? highest : -highest - 1);
    }
    default:
      if (is_floating(dtype) && !finfo(dtype).has_infinity) return Scalar::of(sign * finfo(dtype).max);
      return Scalar::of(sign * std::numeric_limits<double>::infinity());
  }
}

std::string within_bounds(Lowering& out, const std::string& places, DType dtype, const Shape& shape,
                          const std::vector<std::int64_t>& last) {
  std::vector<std::int64_t> bounds = last;
  if (const Scalar most = extreme(dtype, 1); most.integer >= 0)
    for (std::int64_t& bound : bounds) bound = std::min(bound, most.integer);
  const std::string type = mlir_type(dtype, shape), scalar = mlir_type(dtype, {});
  std::string bound = out.splat(Scalar::of(bounds.front()), dtype, {}), bound_type = scalar;
  if (std::ranges::count(bounds, bounds.front()) != static_cast<std::ptrdiff_t>(bounds.size())) {
    const std::string each = mlir_type(dtype, {static_cast<std::int64_t>(bounds.size())});
    const std::string row = out.op("stablehlo.constant", {}, {}, each,
                                   fmt::format("value = dense<[{}]> : {}", fmt::join(bounds, ", "), each));
    const std::string rows[] = {row}, types[] = {each};
    bound = out.op("stablehlo.broadcast_in_dim", rows, types, type,
                   fmt::format("broadcast_dimensions = array<i64: {}>", shape.size() - 1));
    bound_type = type;
  }
  const std::string operands[] = {out.splat(Scalar::of(std::int64_t{0}), dtype, {}), places, bound};
  const std::string types[] = {scalar, type, bound_type};
  if (bound_type == scalar) return out.op("stablehlo.clamp", operands, types, type);
  const std::string zeros[] = {out.splat(Scalar::of(std::int64_t{0}), dtype, shape), places, bound};
  const std::string same[] = {type, type, type};
  return out.op("stablehlo.clamp", zeros, same, type);
}

std::function<std::vector<std::string>(Lowering&, const Equation&)> lower_as(std::string stablehlo) {
  return [op = "stablehlo." + std::move(stablehlo)](Lowering& out, const Equation& equation) {
    return std::vector<std::string>{out.op(op, equation)};
  };
}

}  // namespace lockstep::ir::rules
