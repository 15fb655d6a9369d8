// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/gather.h"
#include "lockstep/program/primitives/indexed_dims.h"
#include "lockstep/program/primitives/rules.h"

namespace lockstep::ir {
namespace {

using Combine = ShardingRule::Combine;
using Integers = std::vector<std::int64_t>;
constexpr auto kDrop = GatherScatterMode::kFillOrDrop;

ScatterDimensionNumbers numbers_of(const OpParams& params) {
  const auto& p = params.as<ScatterParams>();
  return {p.update_window_dims, p.inserted_window_dims, p.scatter_dims_to_operand_dims,
          p.operand_batching_dims, p.scatter_indices_batching_dims};
}

bool unique(const OpParams& params) { return params.as<ScatterParams>().unique_indices; }

std::vector<Aval> scatter_shape(std::span<const Aval> inputs, const OpParams& params) {
  const Aval &operand = inputs[0], &indices = inputs[1], &updates = inputs[2];
  const Aval numeric[] = {operand, updates};
  rules::same_dtypes(numeric);
  const ScatterDimensionNumbers given = numbers_of(params);
  const GatherDimensionNumbers numbers = as_gather(given);
  indexed::check(operand, indices, numbers);
  const Integers windows = indexed::window_dims(operand.rank(), numbers);
  const std::size_t rank = windows.size() + indices.shape.size() - 1;
  indexed::check_offsets(given.update_window_dims, windows.size(), rank, "window dimensions of the updates");
  std::size_t window = 0, batch = 0;
  bool fits = updates.shape.size() == rank;
  Shape expected(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    if (indexed::contains(given.update_window_dims, static_cast<std::int64_t>(d))) {
      expected[d] = operand.shape[static_cast<std::size_t>(windows[window++])];
      fits = fits && updates.shape[d] <= expected[d];
    } else {
      expected[d] = indices.shape[batch++];
      fits = fits && updates.shape[d] == expected[d];
    }
  }
  if (!fits) {
    fail<ShapeError>("expected updates of shape {} (at most, in the window dimensions {}), got {}",
                     to_string(expected), to_string(given.update_window_dims), to_string(updates));
  }
  return {rules::with_shape(operand, operand.shape)};
}

/// Updates may be split if their order does not matter: each device applies its own, and the results are
/// reduced by `combine`.
ShardingRule scatter_sharding(std::span<const Aval> inputs, std::span<const Aval> outputs,
                              const OpParams& params, Combine combine, const Primitive& (*self)()) {
  const ScatterDimensionNumbers p = numbers_of(params);
  ShardingRule rule = ShardingRule::replicated(inputs, outputs);
  auto at = [](const Integers& dims, std::size_t i) { return static_cast<std::size_t>(dims[i]); };
  auto factor = [&](std::size_t operand_dim, std::size_t update_dim) {
    const int f = static_cast<int>(rule.factors.size());
    rule.factors.push_back({inputs[0].shape[operand_dim]});
    rule.operands[0][operand_dim] = rule.operands[2][update_dim] = rule.results[0][operand_dim] = f;
    return f;
  };
  const Integers windows = indexed::window_dims(inputs[0].rank(), as_gather(p)),
                 batch = indexed::batch_dims(inputs[2].rank(), p.update_window_dims);
  for (std::size_t w = 0; w < windows.size(); ++w) {
    const std::size_t d = at(windows, w), u = at(p.update_window_dims, w);
    if (inputs[0].shape[d] == inputs[2].shape[u]) factor(d, u);
  }
  for (std::size_t i = 0; i < p.operand_batching_dims.size(); ++i) {
    const std::size_t j = at(p.scatter_indices_batching_dims, i);
    rule.operands[1][j] = factor(at(p.operand_batching_dims, i), at(batch, j));
  }
  // Each device applies the updates of its own part; the others are out of its bounds.
  std::vector<std::pair<std::size_t, int>> split_dims;
  for (std::size_t k = 0; k < p.scatter_dims_to_operand_dims.size(); ++k) {
    const std::int64_t d = p.scatter_dims_to_operand_dims[k];
    if (!indexed::contains(p.inserted_window_dims, d)) continue;
    const auto dim = static_cast<std::size_t>(d);
    split_dims.emplace_back(
        k, rule.operands[0][dim] = rule.results[0][dim] = static_cast<int>(rule.factors.size()));
    rule.factors.push_back({inputs[0].shape[dim]});
  }
  if (!split_dims.empty()) {
    rule.write = [self, split_dims](const OpParams& params, std::span<const Value> operands,
                                    const PartPlaces& places) -> std::vector<Value> {
      Value indices = operands[1];
      for (const auto& [k, factor] : split_dims) {
        if (!places.is_split(factor)) continue;
        const auto parts = indexed::split_at(indices, static_cast<std::int64_t>(k));
        const Aval aval = parts[1]->aval();
        indices = indexed::joined(
            parts,
            lax::sub(*parts[1], lax::broadcast_in_dim(places.start(factor, aval.dtype), aval.shape, {})));
      }
      return {lax::apply1<Value>(self(), params, {operands[0], indices, operands[2]})};
    };
  }
  if (combine == Combine::kNone) return rule;
  for (std::size_t j = 0; j < batch.size(); ++j) {
    if (indexed::contains(p.scatter_indices_batching_dims, static_cast<std::int64_t>(j))) continue;
    rule.operands[1][j] = rule.operands[2][at(batch, j)] = static_cast<int>(rule.factors.size());
    rule.factors.push_back({inputs[1].shape[j], combine});
  }
  rule.addends = {0};
  return rule;
}

std::vector<Value> scatter_batching(const Primitive& self, const BatchCall& call) {
  const GatherDimensionNumbers n =
      indexed::batched(as_gather(numbers_of(call.params)), true, call.batched[1]);
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < 3; ++i) {
    const bool stays = call.batched[i] || (i == 1 && !call.batched[1]);
    inputs.push_back(stays ? call.inputs[i] : rules::broadcast_leading(call.inputs[i], call.size));
  }
  return {lax::scatter_by(self, inputs[0], inputs[1], inputs[2],
                          {n.offset_dims, n.collapsed_slice_dims, n.start_index_map, n.operand_batching_dims,
                           n.start_indices_batching_dims},
                          kDrop, unique(call.params))};
}

/// The elements of x that a scatter with these indices would write; zeros for dropped updates.
Value gathered(const Value& x, const Value& indices, const OpParams& params, const Shape& updates) {
  const ScatterDimensionNumbers numbers = numbers_of(params);
  const DType dtype = x.aval().dtype;
  return lax::gather(x, indices, as_gather(numbers), scatter_slice_sizes(x.aval().shape, updates, numbers),
                     kDrop, is_inexact(dtype) ? Scalar::of(0.0) : Scalar::of(0));
}

/// For each update its number, from 1 on, in the updates' shape.
Value numbers_of_updates(const Value& like, const Shape& updates) {
  const DType places = place_dtype(num_elements(updates));
  const Value order = lax::reshape(lax::iota(like, places, {num_elements(updates)}, 0), updates);
  return lax::add(order, lax::full(order, Scalar::of(1), places, updates));
}

/// Whether two of the updates may write one element.
bool may_repeat(const Aval& operand, const Aval& indices, const Aval& updates) {
  const std::int64_t dimensions = indices.shape.back();
  return operand.num_elements() > 0 && updates.num_elements() > 0 && dimensions > 0 &&
         indices.num_elements() > dimensions;
}

/// Of indices and updates: updates that may be applied in any order. All that write an element are what the
/// last one of them writes, whose number is the highest.
Program agreed_updates(const Shape& operand, const Aval& indices, const Aval& updates,
                       const OpParams& params) {
  Builder b("agreed_updates");
  const Value starts = b.input({indices.dtype, indices.shape, false, {}}),
              given = b.input({updates.dtype, updates.shape, false, {}}),
              order = numbers_of_updates(starts, updates.shape);
  const DType places = order.aval().dtype;
  const Value none = lax::full(order, Scalar::of(0), places, operand);
  const Value winners =
      lax::scatter_by(scatter_max_p(), none, starts, order, numbers_of(params), kDrop, false);
  const std::int64_t count = num_elements(updates.shape);
  const Value winner = lax::reshape(gathered(winners, starts, params, updates.shape), {count, 1});
  const Value place = lax::sub(winner, lax::full(winner, Scalar::of(1), places, {count, 1}));
  const Value taken = lax::gather(lax::reshape(given, {count}), place, GatherDimensionNumbers{{}, {0}, {0}},
                                  {1}, GatherScatterMode::kClip);
  return b.finish(std::vector<Value>{lax::reshape(taken, updates.shape)});
}

std::vector<std::string> lower_scatter(std::string_view combine, Lowering& out, const Equation& e) {
  const auto& p = e.params.as<ScatterParams>();
  const std::string numbers =
      indexed::mlir({{"update_window_dims", &p.update_window_dims},
                     {"inserted_window_dims", &p.inserted_window_dims},
                     {"input_batching_dims", &p.operand_batching_dims},
                     {"scatter_indices_batching_dims", &p.scatter_indices_batching_dims},
                     {"scatter_dims_to_operand_dims", &p.scatter_dims_to_operand_dims}},
                    out.operand_aval(e, 1).rank() - 1);
  const std::string element = mlir_type(out.operand_aval(e, 0).dtype, {});
  const std::string region =
      combine.empty() ? fmt::format("^bb0(%a: {0}, %b: {0}): \"stablehlo.return\"(%b) : ({0}) -> ()", element)
                      : fmt::format(
                            "^bb0(%a: {0}, %b: {0}): %c = \"stablehlo.{1}\"(%a, %b) : ({0}, {0}) -> {0} "
                            "\"stablehlo.return\"(%c) : ({0}) -> ()",
                            element, combine);
  std::vector<std::string> types;
  for (std::size_t i = 0; i < e.inputs.size(); ++i) types.push_back(out.operand_type(e, i));
  // For a slice, XLA would read elements out of its bounds from the sliced operand (rules::within_bounds).
  std::vector<std::string> operands = out.operands_of_update(e, 2);
  if (out.for_cuda() && combine.empty() && !p.unique_indices &&
      may_repeat(out.operand_aval(e, 0), out.operand_aval(e, 1), out.operand_aval(e, 2))) {
    const Program agreed = agreed_updates(out.operand_aval(e, 0).shape, out.operand_aval(e, 1),
                                          out.operand_aval(e, 2), e.params);
    operands[2] = out.inlined(agreed, {operands[1], operands[2]}).front();
  }
  operands[0] = out.barrier({operands[0]}, {types[0]}).front();
  return {out.op("stablehlo.scatter", operands, types, out.result_type(e),
                 fmt::format("scatter_dimension_numbers = #stablehlo.scatter<{}>, indices_are_sorted = "
                             "false, unique_indices = {}",
                             numbers, p.unique_indices),
                 region)};
}

Value tangent_or_zeros(const JvpCall& call, std::size_t i) {
  return call.tangents[i] ? *call.tangents[i] : rules::zeros(call.inputs[i], Aval(call.inputs[i].aval()));
}

Value as_numbers(const Value& which, DType dtype) { return lax::convert_element_type(which, dtype); }

Tangents jvp_of_add(const JvpCall& call) {
  if (!call.tangents[0] && !call.tangents[2]) return {std::nullopt};
  return {lax::scatter_by(scatter_add_p(), tangent_or_zeros(call, 0), call.inputs[1],
                          tangent_or_zeros(call, 2), numbers_of(call.params), kDrop, unique(call.params))};
}

/// Only the last written one of several updates of one element counts: each gets a number, the numbers are
/// scattered in the same way, and reading them back shows which one won.
Tangents jvp_of_set(const JvpCall& call) {
  if (!call.tangents[0] && !call.tangents[2]) return {std::nullopt};
  const ScatterDimensionNumbers numbers = numbers_of(call.params);
  const Value operand = tangent_or_zeros(call, 0), updates = tangent_or_zeros(call, 2),
              indices = call.inputs[1];
  if (unique(call.params)) return {lax::scatter(operand, indices, updates, numbers, kDrop, true)};
  const Shape shape = updates.aval().shape, operand_shape = operand.aval().shape;
  const DType dtype = operand.aval().dtype;
  const Value order = numbers_of_updates(indices, shape);
  const Value none = lax::full(order, Scalar::of(0), order.aval().dtype, operand_shape);
  Value winners = lax::scatter(none, indices, order, numbers, kDrop);
  Value untouched = as_numbers(lax::eq(winners, none), dtype);
  Value won = as_numbers(lax::eq(gathered(winners, indices, call.params, shape), order), dtype);
  return {lax::scatter_add(lax::mul(operand, untouched), indices, lax::mul(updates, won), numbers, kDrop)};
}

Tangents jvp_of_mul(const JvpCall& call) {
  if (!call.tangents[0] && !call.tangents[2]) return {std::nullopt};
  const ScatterDimensionNumbers numbers = numbers_of(call.params);
  std::optional<Value> sum;
  if (call.tangents[0]) {
    sum = lax::scatter_by(scatter_mul_p(), *call.tangents[0], call.inputs[1], call.inputs[2], numbers, kDrop,
                          unique(call.params));
  }
  if (call.tangents[2]) {
    if (!unique(call.params)) {
      fail<TraceError>(
          "[scatter_mul] has a derivative in its updates only where no element is updated twice (at {}); say "
          "so with unique_indices",
          CallSiteScope::current().to_string());
    }
    const Shape shape = call.inputs[2].aval().shape;
    Value scaled = lax::mul(*call.tangents[2], gathered(call.inputs[0], call.inputs[1], call.params, shape));
    Value onto = sum ? *sum : rules::zeros(scaled, Aval(call.inputs[0].aval()));
    sum = lax::scatter_add(onto, call.inputs[1], scaled, numbers, kDrop, true);
  }
  return {sum};
}

/// Equals share the tangent evenly.
Tangents jvp_of_extreme(const JvpCall& call) {
  if (!call.tangents[0] && !call.tangents[2]) return {std::nullopt};
  const ScatterDimensionNumbers numbers = numbers_of(call.params);
  const Value result = call.outputs[0], indices = call.inputs[1];
  const Shape shape = call.inputs[2].aval().shape;
  const DType dtype = result.aval().dtype;
  Value kept = as_numbers(lax::eq(call.inputs[0], result), dtype);
  Value chosen = as_numbers(lax::eq(call.inputs[2], gathered(result, indices, call.params, shape)), dtype);
  Value count = lax::scatter_add(kept, indices, chosen, numbers, kDrop);
  Value sum = lax::scatter_add(lax::mul(tangent_or_zeros(call, 0), kept), indices,
                               lax::mul(tangent_or_zeros(call, 2), chosen), numbers, kDrop);
  return {lax::div(sum, count)};
}

Tangents transpose_of_add(const TransposeCall& call) {
  const Value& ct = *call.cotangents[0];
  Tangents out(3);
  if (call.operands[0].linear()) out[0] = ct;
  if (call.operands[2].linear())
    out[2] = gathered(ct, *call.operands[1].value, call.params, call.operands[2].aval.shape);
  return out;
}

/// Linear if the indices are unique, or if the updates are known.
Tangents transpose_of_set(const TransposeCall& call) {
  const Value& ct = *call.cotangents[0];
  const Value& indices = *call.operands[1].value;
  Tangents out(3);
  if (call.operands[0].linear()) {
    out[0] = lax::scatter(ct, indices, rules::zeros(ct, call.operands[2].aval), numbers_of(call.params),
                          kDrop, unique(call.params));
  }
  if (call.operands[2].linear()) out[2] = gathered(ct, indices, call.params, call.operands[2].aval.shape);
  return out;
}

/// Linear in the operand.
Tangents transpose_of_mul(const TransposeCall& call) {
  Tangents out(3);
  out[0] = lax::scatter_by(scatter_mul_p(), *call.cotangents[0], *call.operands[1].value,
                           *call.operands[2].value, numbers_of(call.params), kDrop, unique(call.params));
  return out;
}

struct ScatterKind {
  std::string name;
  std::string stablehlo;  ///< what joins an element and its update; empty where the update is taken
  std::string expected;   ///< dtypes it takes, in words
  bool (*takes)(DType);
  const Primitive& (*self)();
  Combine combine;  ///< of updates; kNone where the last one counts
  Tangents (*jvp)(const JvpCall&);
  Tangents (*transpose)(const TransposeCall&) = not_linear;
};

Primitive scatter_primitive(const ScatterKind& kind) {
  return {
      .name = kind.name,
      .shape =
          [takes = kind.takes, expected = kind.expected](std::span<const Aval> inputs,
                                                         const OpParams& params) {
            if (!takes(inputs[0].dtype))
              fail<DTypeError>("expected {}, got {}; convert with astype", expected, to_string(inputs[0]));
            return scatter_shape(inputs, params);
          },
      .sharding =
          [combine = kind.combine, self = kind.self](std::span<const Aval> inputs,
                                                     std::span<const Aval> outputs, const OpParams& params) {
            return scatter_sharding(inputs, outputs, params, combine, self);
          },
      .jvp = kind.jvp,
      .transpose = kind.transpose,
      .batching = [self = kind.self](const BatchCall& call) { return scatter_batching(self(), call); },
      .flops = kind.stablehlo.empty() ? no_flops : flops_of_results,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [stablehlo = kind.stablehlo](Lowering& out,
                                            const Equation& e) { return lower_scatter(stablehlo, out, e); },
  };
}

bool is_any(DType) { return true; }

}  // namespace

const Primitive& scatter_p() {
  static const Primitive p = scatter_primitive(
      {"scatter", "", "any", is_any, scatter_p, Combine::kNone, jvp_of_set, transpose_of_set});
  return p;
}

const Primitive& scatter_add_p() {
  static const Primitive p = scatter_primitive({"scatter_add", "add", "numbers", rules::is_number,
                                                scatter_add_p, Combine::kSum, jvp_of_add, transpose_of_add});
  return p;
}

const Primitive& scatter_mul_p() {
  static const Primitive p =
      scatter_primitive({"scatter_mul", "multiply", "numbers", rules::is_number, scatter_mul_p,
                         Combine::kProduct, jvp_of_mul, transpose_of_mul});
  return p;
}

const Primitive& scatter_min_p() {
  static const Primitive p =
      scatter_primitive({"scatter_min", "minimum", "real numbers or bools", rules::is_ordered, scatter_min_p,
                         Combine::kMin, jvp_of_extreme});
  return p;
}

const Primitive& scatter_max_p() {
  static const Primitive p =
      scatter_primitive({"scatter_max", "maximum", "real numbers or bools", rules::is_ordered, scatter_max_p,
                         Combine::kMax, jvp_of_extreme});
  return p;
}

}  // namespace lockstep::ir
