// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/top_k.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/gather.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::ir {
namespace {

std::vector<Aval> top_k_shape(std::span<const Aval> inputs, const OpParams& params) {
  const Aval& x = inputs[0];
  const std::int64_t k = params.as<TopKParams>().k;
  if (x.rank() == 0) fail<ShapeError>("expected an array of at least one dimension, got {}", to_string(x));
  const DTypeKind kind = info(x.dtype).kind;
  if (kind == DTypeKind::kComplex || kind == DTypeKind::kBool)
    fail<DTypeError>("expected integers or real numbers, got {}", to_string(x));
  Shape shape = x.shape;
  if (k < 0 || k > shape.back()) {
    fail<ShapeError>("expected 0 to {} elements of the last dimension of {}, got {}", shape.back(),
                     to_string(x), k);
  }
  shape.back() = k;
  Aval places = rules::with_shape(x, shape);
  places.dtype = DType::kI32;
  places.weak_type = false;
  return {rules::with_shape(x, std::move(shape)), std::move(places)};
}

/// Each device sends the others the largest of its own part; the largest of these are those of the whole.
ShardingRule top_k_sharding(std::span<const Aval> inputs, std::span<const Aval> outputs,
                            const OpParams& params) {
  const std::int64_t k = params.as<TopKParams>().k;
  ShardingRule rule = ShardingRule::elementwise(inputs, outputs);
  const std::size_t along = inputs[0].shape.size() - 1;
  const std::int64_t size = inputs[0].shape[along];
  const auto factor = static_cast<int>(along);
  rule.operands[0][along] = factor;
  rule.factors[along].size = size;
  rule.factors[along].is_completed = true;
  for (auto& dims : rule.results) dims[along] = ShardingRule::kWhole;
  rule.factors[along].exchanged = [=](std::size_t, std::int64_t parts) {
    return Exchanged{2 * (parts - 1) * std::min(k, size / parts), 2};
  };
  rule.write = [=](const OpParams&, std::span<const Value> operands, const PartPlaces& places) {
    const Value& x = operands[0];
    std::vector<Value> first = lax::top_k(x, std::min(k, x.aval().shape[along]));
    if (!places.is_split(factor) || k == 0) return first;
    const Value start = places.start(factor, DType::kI32);
    first[1] = lax::add(first[1], lax::broadcast_in_dim(start, first[1].aval().shape, {}));
    for (Value& each : first) each = places.all_gather(each, along, factor);
    std::vector<Value> best = lax::top_k(first[0], k);
    best[1] = lax::take_along_axis(first[1], best[1], static_cast<std::int64_t>(along),
                                   GatherScatterMode::kPromiseInBounds);
    return best;
  };
  return rule;
}

/// XLA compares NaNs by their sign bits, and a processor's own NaN, of 0 / 0, has it set: so all NaNs become
/// the positive one.
std::vector<std::string> lower_top_k(Lowering& out, const Equation& e) {
  const Aval& x = out.operand_aval(e, 0);
  std::string operand = out.operand(e, 0);
  if (is_floating(x.dtype)) {
    const std::string is_nan = out.compare("NE", operand, operand, x.dtype, x.shape);
    const std::string nan = out.splat(Scalar::of(std::numeric_limits<double>::quiet_NaN()), x.dtype, x.shape);
    operand = out.select(is_nan, nan, operand, x.dtype, x.shape);
  }
  const std::string result = out.fresh();
  out.line(fmt::format("{}:2 = \"chlo.top_k\"({}) {{k = {} : i64}} : ({}) -> ({}, {})", result, operand,
                       e.params.as<TopKParams>().k, mlir_type(x), out.result_type(e, 0),
                       out.result_type(e, 1)));
  return {result + "#0", result + "#1"};
}

}  // namespace

const Primitive& top_k_p() {
  static const Primitive p = {
      .name = "top_k",
      .shape = top_k_shape,
      .sharding = top_k_sharding,
      .jvp = [](const JvpCall& call) -> Tangents {
        Tangents out(2);
        const Aval& x = call.inputs[0].aval();
        if (!call.tangents[0] || x.num_elements() == 0) return out;
        out[0] = lax::take_along_axis(*call.tangents[0], call.outputs[1], x.rank() - 1,
                                      GatherScatterMode::kPromiseInBounds);
        return out;
      },
      .transpose = not_linear,
      .batching = [](const BatchCall& call) -> std::vector<Value> {
        return call.builder.emit(top_k_p(), call.params, call.inputs);
      },
      .flops = [](std::span<const Aval> inputs, std::span<const Aval>, const OpParams& params) -> double {
        const auto k = static_cast<double>(params.as<TopKParams>().k);
        return static_cast<double>(inputs[0].num_elements()) * std::ceil(std::log2(k + 1));
      },
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = lower_top_k,
  };
  return p;
}

}  // namespace lockstep::ir
