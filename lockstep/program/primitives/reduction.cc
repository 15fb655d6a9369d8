// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/reduction.h"

#include <algorithm>
#include <limits>

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/primitives/window_text.h"

namespace lockstep::ir {
namespace {

using Combine = ShardingRule::Combine;

const std::vector<std::int64_t>& axes_of(const OpParams& params) { return params.as<ReduceParams>().axes; }

bool contains(const std::vector<std::int64_t>& axes, std::int64_t axis) {
  return std::ranges::find(axes, axis) != axes.end();
}

/// The dimensions of an operand of this rank that are not reduced.
std::vector<std::int64_t> kept(std::int64_t rank, const std::vector<std::int64_t>& axes) {
  std::vector<std::int64_t> dimensions;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (!contains(axes, d)) dimensions.push_back(d);
  }
  return dimensions;
}

Shape sizes(const Shape& shape, const std::vector<std::int64_t>& dimensions) {
  Shape out;
  for (std::int64_t d : dimensions) out.push_back(shape[static_cast<std::size_t>(d)]);
  return out;
}

void check_axis(std::int64_t axis, const Aval& operand) {
  if (axis < 0 || axis >= operand.rank()) {
    fail<ShapeError>("axis {} is out of range for {}, which has {} dimensions, counted from 0", axis,
                     to_string(operand), operand.rank());
  }
}

auto always(Combine combine) {
  return [combine](DType) { return combine; };
}

/// There is no collective for the order of complex numbers.
auto of_real(Combine combine) {
  return [combine](DType dtype) { return is_complex(dtype) ? Combine::kNone : combine; };
}

/// There is no collective for bits in integers.
auto of_bools(Combine combine) {
  return [combine](DType dtype) { return dtype == DType::kBool ? combine : Combine::kNone; };
}

using Jvp = JvpRule;
using Transpose = std::function<Tangents(const TransposeCall&)>;

struct Reduction {
  std::string name;
  std::string stablehlo;  ///< the operation on two elements
  std::string expected;   ///< dtypes it takes, in words
  bool (*takes)(DType);
  Scalar (*identity)(DType);
  /// For the parts of a split dimension; kNone if it must be whole.
  std::function<Combine(DType)> combine;
  const Primitive& (*self)();
  Jvp jvp;
  Transpose transpose = not_linear;
  ZeroPadding zero_padding = ZeroPadding::kCounts;
};

Primitive reduction(Reduction r) {
  return {
      .name = r.name,
      .shape = [takes = r.takes, expected = r.expected](std::span<const Aval> inputs,
                                                        const OpParams& params) -> std::vector<Aval> {
        const Aval& x = inputs[0];
        if (!takes(x.dtype)) {
          fail<DTypeError>("expected {}, got {}; convert with astype", expected, to_string(x));
        }
        const auto& axes = axes_of(params);
        for (std::size_t i = 0; i < axes.size(); ++i) {
          check_axis(axes[i], x);
          if (i != 0 && axes[i] <= axes[i - 1]) {
            fail<ShapeError>("expected each axis once, in rising order, got {}", to_string(axes));
          }
        }
        return {Aval{x.dtype, sizes(x.shape, kept(x.rank(), axes)), x.weak_type, {}}};
      },
      .sharding =
          [combine = r.combine](std::span<const Aval> inputs, std::span<const Aval> outputs,
                                const OpParams& params) {
            ShardingRule rule = ShardingRule::replicated(inputs, outputs);
            const Combine how = combine(inputs[0].dtype);
            std::size_t result_dim = 0;
            for (std::int64_t d = 0; d < inputs[0].rank(); ++d) {
              bool reduced = contains(axes_of(params), d);
              if (reduced && how == Combine::kNone) continue;
              int factor = static_cast<int>(rule.factors.size());
              rule.factors.push_back(
                  {inputs[0].shape[static_cast<std::size_t>(d)], reduced ? how : Combine::kNone});
              rule.operands[0][static_cast<std::size_t>(d)] = factor;
              if (!reduced) rule.results[0][result_dim++] = factor;
            }
            return rule;
          },
      .jvp = std::move(r.jvp),
      .transpose = std::move(r.transpose),
      .batching = [self = r.self](const BatchCall& call) -> std::vector<Value> {
        return {lax::apply1<Value>(self(), OpParams::of(ReduceParams{rules::shifted(axes_of(call.params))}),
                                   {call.inputs[0]})};
      },
      .flops = flops_of_operand,
      .zero_padding = r.zero_padding,
      .exchange = no_exchange,
      .lower = [stablehlo = r.stablehlo, identity = r.identity](
                   Lowering& out, const Equation& e) -> std::vector<std::string> {
        const Aval& x = out.operand_aval(e, 0);
        return {reduced_text(out, stablehlo, identity(x.dtype), out.operand(e, 0), x, axes_of(e.params))};
      },
  };
}

/// `reduced`, the result of reducing x, repeated over the reduced dimensions.
Value spread(const Value& reduced, const Shape& shape, const std::vector<std::int64_t>& axes) {
  return lax::broadcast_in_dim(reduced, shape, kept(static_cast<std::int64_t>(shape.size()), axes));
}

/// JVP of the largest and the smallest: equals share the tangent evenly. Other tangents are left out rather
/// than multiplied by 0, so that no infinity among them does harm.
Tangents choose(const JvpCall& c) {
  if (!c.tangents[0]) return {std::nullopt};
  const Value &x = c.inputs[0], &tangent = *c.tangents[0];
  const auto& axes = axes_of(c.params);
  const Value chosen = lax::eq(x, spread(c.outputs[0], x.aval().shape, axes));
  const Value count = lax::reduce_sum(lax::convert_element_type(chosen, x.aval().dtype), axes);
  return {lax::div(lax::reduce_sum(lax::select(chosen, tangent, lax::full_like(tangent, 0)), axes), count)};
}

Value part(const Value& x, std::int64_t start, std::int64_t limit) {
  std::vector<std::int64_t> starts(x.aval().shape.size(), 0), limits = x.aval().shape;
  starts[0] = start;
  limits[0] = limit;
  return lax::slice(x, starts, limits);
}

/// Halves are multiplied together until one is left, each time by the product rule: no division, so that
/// zeros among the factors do no harm.
Tangents product_rule(const JvpCall& c) {
  if (!c.tangents[0]) return {std::nullopt};
  const auto& axes = axes_of(c.params);
  const Shape shape = c.inputs[0].aval().shape;  // a copy: equations to come move the avals
  std::vector<std::int64_t> rest = kept(c.inputs[0].aval().rank(), axes), order = axes;
  order.insert(order.end(), rest.begin(), rest.end());
  std::int64_t n = num_elements(sizes(shape, axes));
  if (n == 0) return {std::nullopt};
  Shape merged = rules::prepended(n, sizes(shape, rest));
  Value x = lax::reshape(lax::transpose(c.inputs[0], order), merged);
  Value t = lax::reshape(lax::transpose(*c.tangents[0], order), merged);
  while (n > 1) {
    const std::int64_t half = n / 2;
    Value x0 = part(x, 0, half), x1 = part(x, half, 2 * half);
    Value t0 = part(t, 0, half), t1 = part(t, half, 2 * half);
    Value product = lax::mul(x0, x1);
    Value tangent = lax::add(lax::mul(t0, x1), lax::mul(x0, t1));
    if (n % 2 != 0) {
      const Value xs[] = {product, part(x, n - 1, n)}, ts[] = {tangent, part(t, n - 1, n)};
      product = lax::concatenate(std::span<const Value>(xs), 0);
      tangent = lax::concatenate(std::span<const Value>(ts), 0);
    }
    x = product;
    t = tangent;
    n = half + n % 2;
  }
  return {lax::reshape(t, sizes(shape, rest))};
}

bool is_any_dtype(DType) { return true; }
bool has_bits(DType dtype) { return !is_inexact(dtype); }

/// Where the axis is split: the place of the device's own best in the whole, if none is better; else the last
/// place of all. The first of these is the answer.
Value place_of_best(const Value& x, const Value& own, const ArgParams& p, int sign, int factor,
                    const PartPlaces& places) {
  const Value best = sign > 0 ? lax::reduce_max(x, {p.axis}) : lax::reduce_min(x, {p.axis});
  const Value of_all =
      places.all_reduce(best, sign > 0 ? ShardingRule::Combine::kMax : ShardingRule::Combine::kMin, factor);
  Value is_best = lax::eq(best, of_all);
  if (is_floating(x.aval().dtype))
    is_best = lax::logical_or(is_best, lax::logical_and(lax::ne(best, best), lax::ne(of_all, of_all)));
  const Value start = places.start(factor, p.index_dtype);
  const Value place = lax::add(own, lax::broadcast_in_dim(start, own.aval().shape, {}));
  const Value none = lax::full(own, rules::extreme(p.index_dtype, 1), p.index_dtype, own.aval().shape);
  return lax::select(is_best, place, none);
}

/// The place of each element along the axis.
std::string places_text(Lowering& out, const Aval& x, const ArgParams& p) {
  return out.op("stablehlo.iota", {}, {}, mlir_type(p.index_dtype, x.shape),
                fmt::format("iota_dimension = {} : i64", p.axis));
}

/// argmax (`sign` > 0) and argmin as one reduction of pairs of an element and its place, in any order.
std::string reduce_pairs(Lowering& out, const Equation& e, int sign) {
  const Aval& x = out.operand_aval(e, 0);
  const auto& p = e.params.as<ArgParams>();
  const std::string value = mlir_type(x.dtype, {}), index = mlir_type(p.index_dtype, {});
  const std::string iota = places_text(out, x, p);
  std::string start = out.splat(rules::extreme(x.dtype, -sign), x.dtype, {});
  std::string zero = out.splat(Scalar::of(0), p.index_dtype, {});

  std::string body;
  auto compare = [&](std::string_view result, std::string_view lhs, std::string_view rhs,
                     std::string_view direction, const std::string& type) {
    body += fmt::format(
        " {} = \"stablehlo.compare\"({}, {}) {{comparison_direction = #stablehlo<comparison_direction "
        "{}>}} : ({}, {}) -> tensor<i1>",
        result, lhs, rhs, direction, type, type);
  };
  auto logic = [&](std::string_view result, std::string_view op, std::string_view operands,
                   std::string_view types) {
    body += fmt::format(" {} = \"stablehlo.{}\"({}) : ({}) -> tensor<i1>", result, op, operands, types);
  };
  constexpr std::string_view kTwo = "tensor<i1>, tensor<i1>";
  compare("%wins", "%a", "%b", sign > 0 ? "GT" : "LT", value);
  compare("%same", "%a", "%b", "EQ", value);
  compare("%first", "%i", "%j", "LT", index);
  std::string wins = "%wins", same = "%same";
  if (is_floating(x.dtype)) {
    compare("%a_nan", "%a", "%a", "NE", value);
    compare("%b_nan", "%b", "%b", "NE", value);
    logic("%b_number", "not", "%b_nan", "tensor<i1>");
    logic("%only_a_nan", "and", "%a_nan, %b_number", kTwo);
    logic("%wins_nan", "or", "%wins, %only_a_nan", kTwo);
    logic("%both_nan", "and", "%a_nan, %b_nan", kTwo);
    logic("%same_nan", "or", "%same, %both_nan", kTwo);
    same = "%same_nan";
    wins = "%wins_nan";
  }
  logic("%tie", "and", same + ", %first", kTwo);
  logic("%take", "or", wins + ", %tie", kTwo);
  std::string region = fmt::format(
      "^bb0(%a: {0}, %i: {1}, %b: {0}, %j: {1}):{2} "
      "%value = \"stablehlo.select\"(%take, %a, %b) : (tensor<i1>, {0}, {0}) -> {0} "
      "%index = \"stablehlo.select\"(%take, %i, %j) : (tensor<i1>, {1}, {1}) -> {1} "
      "\"stablehlo.return\"(%value, %index) : ({0}, {1}) -> ()",
      value, index, body);
  std::string result = out.fresh();
  out.line(fmt::format(
      "{}:2 = \"stablehlo.reduce\"({}, {}, {}, {}) ({{{}}}) {{dimensions = array<i64: {}>}} : ({}, {}, "
      "{}, {}) -> ({}, {})",
      result, out.operand(e, 0), iota, start, zero, region, p.axis, mlir_type(x),
      mlir_type(p.index_dtype, x.shape), value, index, mlir_type(x.dtype, out.result_aval(e).shape),
      out.result_type(e)));
  return result + "#1";
}

/// The same as two reductions, for CPUs: XLA makes no vectors of a reduction of pairs. The first place of an
/// element that equals the best, or that is NaN: then so is the best, and equals none.
std::string reduce_twice(Lowering& out, const Equation& e, int sign) {
  const Aval& x = out.operand_aval(e, 0);
  const auto& p = e.params.as<ArgParams>();
  // Without a barrier XLA may compute x once for each reduction, with other roundings.
  const std::string operand = out.barrier({out.operand(e, 0)}, {out.operand_type(e, 0)})[0];
  const std::string best = reduced_text(out, sign > 0 ? "maximum" : "minimum", rules::extreme(x.dtype, -sign),
                                        operand, x, {p.axis});
  const std::string bests[] = {best}, best_types[] = {mlir_type(x.dtype, out.result_aval(e).shape)};
  const std::string spread = out.op("stablehlo.broadcast_in_dim", bests, best_types, mlir_type(x),
                                    "broadcast_dimensions = " + mlir_array(kept(x.rank(), {p.axis})));
  std::string is_best = out.compare("EQ", operand, spread, x.dtype, x.shape);
  if (is_floating(x.dtype)) {
    const std::string bools = mlir_type(DType::kBool, x.shape), types[] = {bools, bools};
    const std::string both[] = {is_best, out.compare("NE", operand, operand, x.dtype, x.shape)};
    is_best = out.op("stablehlo.or", both, types, bools);
  }
  const Scalar none = rules::extreme(p.index_dtype, 1);
  const std::string places = out.select(is_best, places_text(out, x, p),
                                        out.splat(none, p.index_dtype, x.shape), p.index_dtype, x.shape);
  return reduced_text(out, "minimum", none, places, Aval{p.index_dtype, x.shape}, {p.axis});
}

/// argmax (`sign` > 0) and argmin.
Primitive arg_reduction(std::string name, int sign, const Primitive& (*self)()) {
  return {
      .name = std::move(name),
      .shape = [](std::span<const Aval> inputs, const OpParams& params) -> std::vector<Aval> {
        const Aval& x = inputs[0];
        const auto& p = params.as<ArgParams>();
        if (!rules::is_ordered(x.dtype)) fail<DTypeError>("expected real numbers, got {}", to_string(x));
        if (!is_integer(p.index_dtype)) {
          fail<DTypeError>("expected an integer dtype for the index, got {}", lockstep::name(p.index_dtype));
        }
        check_axis(p.axis, x);
        if (x.shape[static_cast<std::size_t>(p.axis)] == 0) {
          fail<ShapeError>("axis {} of {} has no elements to choose from", p.axis, to_string(x));
        }
        if (!holds(p.index_dtype, x.shape[static_cast<std::size_t>(p.axis)])) {
          fail<DTypeError>("axis {} of {} has more elements than {} can index", p.axis, to_string(x),
                           lockstep::name(p.index_dtype));
        }
        return {Aval{p.index_dtype, sizes(x.shape, kept(x.rank(), {p.axis}))}};
      },
      .sharding =
          [self, sign](std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params) {
            ShardingRule rule = ShardingRule::replicated(inputs, outputs);
            std::vector<std::int64_t> dimensions = kept(inputs[0].rank(), {params.as<ArgParams>().axis});
            for (std::size_t i = 0; i < dimensions.size(); ++i) {
              rule.factors.push_back({outputs[0].shape[i]});
              rule.operands[0][static_cast<std::size_t>(dimensions[i])] = static_cast<int>(i);
              rule.results[0][i] = static_cast<int>(i);
            }
            const auto along = static_cast<std::size_t>(params.as<ArgParams>().axis);
            const auto factor = static_cast<int>(rule.factors.size());
            rule.operands[0][along] = factor;
            // The exchanged values are of the result's size.
            rule.factors.push_back(
                {inputs[0].shape[along], ShardingRule::Combine::kMin, [](std::size_t, std::int64_t) {
                   return Exchanged{2, 1};
                 }});
            rule.write = [self, sign, factor](const OpParams& local, std::span<const Value> operands,
                                              const PartPlaces& places) -> std::vector<Value> {
              const auto& p = local.as<ArgParams>();
              const Value own = lax::apply1<Value>(self(), local, {operands[0]});
              if (!places.is_split(factor)) return {own};
              return {place_of_best(operands[0], own, p, sign, factor, places)};
            };
            return rule;
          },
      .jvp = zero_tangents,
      .transpose = not_linear,
      .batching = [self](const BatchCall& call) -> std::vector<Value> {
        const auto& p = call.params.as<ArgParams>();
        return {
            lax::apply1<Value>(self(), OpParams::of(ArgParams{p.axis + 1, p.index_dtype}), {call.inputs[0]})};
      },
      .flops = flops_of_operand,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [sign](Lowering& out, const Equation& e) -> std::vector<std::string> {
        return {out.for_cpu() ? reduce_twice(out, e, sign) : reduce_pairs(out, e, sign)};
      },
  };
}

}  // namespace

std::string reduced_text(Lowering& out, std::string_view stablehlo, const Scalar& identity,
                         const std::string& operand, const Aval& x, const std::vector<std::int64_t>& axes) {
  const std::string element = mlir_type(x.dtype, {});
  const std::string operands[] = {operand, out.splat(identity, x.dtype, {})};
  const std::string types[] = {mlir_type(x), element};
  const std::string region = fmt::format("^bb0(%a: {0}, %b: {0}):{1} \"stablehlo.return\"(%c) : ({0}) -> ()",
                                         element, binary_text("%c", stablehlo, "%a", "%b", x.dtype));
  return out.op("stablehlo.reduce", operands, types, mlir_type(x.dtype, sizes(x.shape, kept(x.rank(), axes))),
                "dimensions = " + mlir_array(axes), region);
}

const Primitive& reduce_sum_p() {
  static const Primitive p = rules::linear_in(
      {{0}}, reduction({.name = "reduce_sum",
                        .stablehlo = "add",
                        .expected = "numbers",
                        .takes = rules::is_number,
                        .identity = [](DType) { return Scalar::of(0); },
                        .combine = always(Combine::kSum),
                        .self = reduce_sum_p,
                        .jvp = rules::linear_jvp(reduce_sum_p),
                        .transpose = [](const TransposeCall& c) -> Tangents {
                          return {spread(*c.cotangents[0], c.operands[0].aval.shape, axes_of(c.params))};
                        },
                        .zero_padding = ZeroPadding::kAddsNothing}));
  return p;
}

const Primitive& reduce_prod_p() {
  static const Primitive p = reduction({.name = "reduce_prod",
                                        .stablehlo = "multiply",
                                        .expected = "numbers",
                                        .takes = rules::is_number,
                                        .identity = [](DType) { return Scalar::of(1); },
                                        .combine = always(Combine::kProduct),
                                        .self = reduce_prod_p,
                                        .jvp = product_rule});
  return p;
}

const Primitive& reduce_max_p() {
  static const Primitive p = reduction({.name = "reduce_max",
                                        .stablehlo = "maximum",
                                        .expected = "numbers or bools",
                                        .takes = is_any_dtype,
                                        .identity = [](DType dtype) { return rules::extreme(dtype, -1); },
                                        .combine = of_real(Combine::kMax),
                                        .self = reduce_max_p,
                                        .jvp = choose});
  return p;
}

const Primitive& reduce_min_p() {
  static const Primitive p = reduction({.name = "reduce_min",
                                        .stablehlo = "minimum",
                                        .expected = "numbers or bools",
                                        .takes = is_any_dtype,
                                        .identity = [](DType dtype) { return rules::extreme(dtype, 1); },
                                        .combine = of_real(Combine::kMin),
                                        .self = reduce_min_p,
                                        .jvp = choose});
  return p;
}

const Primitive& reduce_and_p() {
  static const Primitive p = reduction({.name = "reduce_and",
                                        .stablehlo = "and",
                                        .expected = "bools or integers",
                                        .takes = has_bits,
                                        .identity =
                                            [](DType dtype) {
                                              return info(dtype).kind == DTypeKind::kSigned
                                                         ? Scalar::of(-1)
                                                         : rules::extreme(dtype, 1);
                                            },
                                        .combine = of_bools(Combine::kMin),
                                        .self = reduce_and_p,
                                        .jvp = zero_tangents});
  return p;
}

const Primitive& reduce_or_p() {
  static const Primitive p = reduction({.name = "reduce_or",
                                        .stablehlo = "or",
                                        .expected = "bools or integers",
                                        .takes = has_bits,
                                        .identity = [](DType) { return Scalar::of(0); },
                                        .combine = of_bools(Combine::kMax),
                                        .self = reduce_or_p,
                                        .jvp = zero_tangents});
  return p;
}

const Primitive& argmax_p() {
  static const Primitive p = arg_reduction("argmax", 1, argmax_p);
  return p;
}

const Primitive& argmin_p() {
  static const Primitive p = arg_reduction("argmin", -1, argmin_p);
  return p;
}

}  // namespace lockstep::ir
