// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/reverse.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/primitives/special.h"
#include "lockstep/program/primitives/window.h"
#include "lockstep/program/primitives/window_text.h"

namespace lockstep::ir {
namespace {

using Integers = std::vector<std::int64_t>;

std::vector<Aval> cumulative_shape(std::span<const Aval> inputs, const OpParams& params) {
  const std::int64_t axis = params.as<CumulativeParams>().axis;
  if (axis < 0 || axis >= inputs[0].rank())
    fail<ShapeError>("axis {} is out of range for {}, counted from 0", axis, to_string(inputs[0]));
  return {rules::with_shape(inputs[0], inputs[0].shape)};
}

/// A value and its tangent.
struct Pair {
  Value x, t;
};
using Join = Pair (*)(const Pair&, const Pair&);

Value strided(const Value& x, std::int64_t axis, std::int64_t start, std::int64_t limit,
              std::int64_t stride) {
  const Shape shape = x.aval().shape;
  Integers starts(shape.size(), 0), limits = shape, strides(shape.size(), 1);
  const auto along = static_cast<std::size_t>(axis);
  starts[along] = start, limits[along] = limit, strides[along] = stride;
  return lax::slice(x, starts, limits, strides);
}

/// even and odd, the first longer by one or of one length, alternating along the axis.
Value interleaved(const Value& even, const Value& odd, std::int64_t axis) {
  const Shape shape = even.aval().shape, other = odd.aval().shape;
  const auto along = static_cast<std::size_t>(axis);
  const bool longer = shape[along] > other[along];
  Integers none(shape.size(), 0), between = none, before = none, even_high = none, odd_high = none;
  between[along] = before[along] = 1;
  if (longer)
    odd_high[along] = 1;
  else
    even_high[along] = 1;
  const Value zero = rules::zeros(even, {even.aval().dtype, {}});
  return lax::add(lax::pad(even, zero, none, even_high, between),
                  lax::pad(odd, zero, before, odd_high, between));
}

Pair both(const Pair& p, const std::function<Value(const Value&)>& f) { return {f(p.x), f(p.t)}; }

/// The running joins along the axis, in a logarithm of steps: those of neighbours, and between them one more.
Pair scan(const Pair& all, std::int64_t axis, Join join) {
  const std::int64_t n = all.x.aval().shape[static_cast<std::size_t>(axis)];
  if (n < 2) return all;
  auto every_second = [&](std::int64_t start, std::int64_t limit) {
    return both(all, [&](const Value& v) { return strided(v, axis, start, limit, 2); });
  };
  const Pair odd = scan(join(every_second(0, n - 1), every_second(1, n)), axis, join);
  const Pair first = both(all, [&](const Value& v) { return strided(v, axis, 0, 1, 1); });
  Pair even = first;
  if (n > 2) {
    const std::int64_t rest = (n - 1) / 2;
    const Pair joined =
        join(both(odd, [&](const Value& v) { return strided(v, axis, 0, rest, 1); }), every_second(2, n));
    auto behind_first = [&](const Value& head, const Value& tail) {
      const Value parts[] = {head, tail};
      return lax::concatenate(std::span<const Value>(parts), axis);
    };
    even = {behind_first(first.x, joined.x), behind_first(first.t, joined.t)};
  }
  return {interleaved(even.x, odd.x, axis), interleaved(even.t, odd.t, axis)};
}

/// The running sums of powers of complex numbers, each of twice as many elements as the one before it.
Value running_logsumexp(Value x, std::int64_t axis, bool reverse) {
  const Shape shape = x.aval().shape;
  const DType dtype = x.aval().dtype;
  const auto along = static_cast<std::size_t>(axis);
  const Integers none(shape.size(), 0);
  const Value nothing = lax::full(x, rules::extreme(dtype, -1), dtype, {});
  x = lax::logaddexp(lax::full(x, rules::extreme(dtype, -1), dtype, shape), x);  // its part within ±pi
  for (std::int64_t reach = 1; reach < shape[along]; reach *= 2) {
    Integers low = none, high = none;
    (reverse ? high : low)[along] = reach;
    (reverse ? low : high)[along] = -reach;
    x = lax::logaddexp(lax::pad(x, nothing, low, high, none), x);
  }
  return x;
}

Tangents scan_jvp(const JvpCall& call, Join join) {
  if (!call.tangents[0]) return {std::nullopt};
  const auto p = call.params.as<CumulativeParams>();
  if (call.inputs[0].aval().num_elements() == 0) return {std::nullopt};
  Pair all{call.inputs[0], *call.tangents[0]};
  auto turned = [&](const Value& v) { return p.reverse ? lax::rev(v, {p.axis}) : v; };
  return {turned(scan(both(all, turned), p.axis, join).t)};
}

/// t of the first times `part`, and of the second times 1 - part.
Value mixed(const Pair& a, const Pair& b, const Value& part) {
  return lax::add(lax::mul(a.t, part), lax::mul(b.t, lax::sub(lax::full_like(part, 1), part)));
}

/// 1 of the one that wins, 0 of the other, a half where they are equal.
Value share(const Value& wins, const Value& equal, DType dtype) {
  const Value one = lax::convert_element_type(wins, dtype);
  return lax::select(equal, lax::full_like(one, 0.5), one);
}

Pair join_products(const Pair& a, const Pair& b) {
  return {lax::mul(a.x, b.x), lax::add(lax::mul(a.t, b.x), lax::mul(a.x, b.t))};
}
/// The tangent of the one that wins; of a NaN none wins, or of complex numbers the one that is the result.
Value winners(const Pair& a, const Pair& b, const Value& result, Value first_wins, Value second_wins) {
  const DType dtype = a.x.aval().dtype;
  const Value equal = lax::eq(a.x, b.x);
  if (is_complex(dtype)) first_wins = lax::eq(a.x, result), second_wins = lax::eq(b.x, result);
  return lax::add(lax::mul(a.t, share(first_wins, equal, dtype)),
                  lax::mul(b.t, share(second_wins, equal, dtype)));
}
Pair join_largest(const Pair& a, const Pair& b) {
  const Value most = lax::max(a.x, b.x);
  return {most, winners(a, b, most, lax::gt(a.x, b.x), lax::lt(a.x, b.x))};
}
Pair join_smallest(const Pair& a, const Pair& b) {
  const Value least = lax::min(a.x, b.x);
  return {least, winners(a, b, least, lax::lt(a.x, b.x), lax::gt(a.x, b.x))};
}
Pair join_logsumexp(const Pair& a, const Pair& b) {
  if (is_complex(a.x.aval().dtype)) {
    const Value sum = lax::logaddexp(a.x, b.x);
    return {sum, lax::add(lax::mul(a.t, lax::exp(lax::sub(a.x, sum))),
                          lax::mul(b.t, lax::exp(lax::sub(b.x, sum))))};
  }
  const Value difference = lax::sub(a.x, b.x);
  const Value infinite = lax::select(lax::ne(difference, difference), lax::eq(a.x, b.x),
                                     lax::ne(a.x, a.x));  // both are the same infinity
  const Value part = lax::logistic(lax::select(infinite, lax::full_like(a.x, 0), difference));
  return {lax::logaddexp(a.x, b.x), mixed(a, b, part)};
}

/// log(exp(a) + exp(b)), without overflow, and of infinities.
std::string logsumexp_text(DType dtype) {
  const std::string type = mlir_type(dtype, {});
  auto unary = [&](std::string_view result, std::string_view op, std::string_view x) {
    return fmt::format(" {0} = \"stablehlo.{1}\"({2}) : ({3}) -> {3}", result, op, x, type);
  };
  return binary_text("%m", "maximum", "%a", "%b", dtype) + binary_text("%d", "subtract", "%a", "%b", dtype) +
         unary("%e", "abs", "%d") + unary("%f", "negate", "%e") + unary("%g", "exponential", "%f") +
         unary("%h", "log_plus_one", "%g") + binary_text("%i", "add", "%m", "%h", dtype) +
         binary_text("%j", "add", "%a", "%b", dtype) +
         fmt::format(
             " %k = \"stablehlo.compare\"(%d, %d) {{comparison_direction = #stablehlo<comparison_direction "
             "NE>}} : ({0}, {0}) -> tensor<i1> %c = \"stablehlo.select\"(%k, %j, %i) : (tensor<i1>, {0}, "
             "{0}) "
             "-> {0}",
             type);
}

struct CumulativeKind {
  std::string name;
  std::string stablehlo;  ///< what joins two numbers; empty of cumlogsumexp
  std::string expected;
  bool (*takes)(DType);
  Scalar (*identity)(DType);
  const Primitive& (*self)();
  Value (*join_values)(const Value&, const Value&);
  JvpRule jvp;
  std::function<Tangents(const TransposeCall&)> transpose = not_linear;
};

/// For a split axis: each device's running results continue from the totals of the devices before it.
Value cumulative_of_part(const CumulativeKind& kind, const CumulativeParams& p, const Value& x, int factor,
                         const PartPlaces& places) {
  const Value own = lax::cumulative(kind.self(), x, p.axis, p.reverse);
  if (!places.is_split(factor)) return own;
  const auto along = static_cast<std::size_t>(p.axis);
  const std::int64_t n = places.num_parts(factor), size = x.aval().shape[along];
  const DType dtype = x.aval().dtype;
  const std::int64_t last = p.reverse ? 0 : size - 1;
  const Value totals = places.all_gather(strided(own, p.axis, last, last + 1, 1), along, factor);
  const Value running = lax::cumulative(kind.self(), totals, p.axis, p.reverse);
  // Before the first (after the last) there is nothing.
  Integers low(x.aval().shape.size()), high = low, none = low;
  (p.reverse ? high : low)[along] = 1;
  (p.reverse ? low : high)[along] = -1;
  const Value before = lax::pad(running, lax::full(x, kind.identity(dtype), dtype, {}), low, high, none);
  const Value number = places.number(factor, place_dtype(n));
  std::vector<Value> starts(low.size(), lax::full_like(number, 0));
  starts[along] = number;
  Shape one = x.aval().shape;
  one[along] = 1;
  const Value here = lax::dynamic_slice(before, std::span<const Value>(starts), one);
  Integers same(one.size());
  std::iota(same.begin(), same.end(), 0);
  return kind.join_values(lax::broadcast_in_dim(here, x.aval().shape, same), own);
}

/// Lowered as a reduction over windows that end (begin) at each element, which XLA does in blocks.
Primitive cumulative_primitive(CumulativeKind kind) {
  return {
      .name = kind.name,
      .shape =
          [takes = kind.takes, expected = kind.expected](std::span<const Aval> inputs,
                                                         const OpParams& params) {
            if (!takes(inputs[0].dtype))
              fail<DTypeError>("expected {}, got {}; convert with astype", expected, to_string(inputs[0]));
            return cumulative_shape(inputs, params);
          },
      .sharding =
          [kind](std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params) {
            ShardingRule rule = ShardingRule::elementwise(inputs, outputs);
            const auto along = static_cast<std::size_t>(params.as<CumulativeParams>().axis);
            const int factor = rule.operands[0][along];
            rule.factors[static_cast<std::size_t>(factor)].exchanged = [](std::size_t, std::int64_t parts) {
              return Exchanged{parts, 1};
            };
            rule.write = [kind, factor](const OpParams& local, std::span<const Value> operands,
                                        const PartPlaces& places) -> std::vector<Value> {
              return {cumulative_of_part(kind, local.as<CumulativeParams>(), operands[0], factor, places)};
            };
            return rule;
          },
      .jvp = std::move(kind.jvp),
      .transpose = std::move(kind.transpose),
      .batching = [self = kind.self](const BatchCall& call) -> std::vector<Value> {
        const auto& p = call.params.as<CumulativeParams>();
        return {lax::cumulative(self(), call.inputs[0], p.axis + 1, p.reverse)};
      },
      .flops = flops_of_results,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [stablehlo = kind.stablehlo, identity = kind.identity](
                   Lowering& out, const Equation& e) -> std::vector<std::string> {
        const Aval& x = out.operand_aval(e, 0);
        const auto& p = e.params.as<CumulativeParams>();
        const auto along = static_cast<std::size_t>(p.axis);
        const std::int64_t n = x.shape[along];
        if (n == 0) return {out.operand(e, 0)};
        if (stablehlo.empty() && is_complex(x.dtype)) {
          Builder builder("cumlogsumexp");
          const Value results[] = {running_logsumexp(builder.input(x), p.axis, p.reverse)};
          return out.inlined(builder.finish(results), {out.operand(e, 0)});
        }
        const Integers ones(x.shape.size(), 1), none(x.shape.size(), 0);
        WindowParams window{ones, ones, none, none, ones, ones};
        window.window_dimensions[along] = n;
        (p.reverse ? window.padding_high : window.padding_low)[along] = n - 1;
        const std::string body =
            stablehlo.empty() ? logsumexp_text(x.dtype) : binary_text("%c", stablehlo, "%a", "%b", x.dtype);
        return {lower_reduce_window(out, e, window, identity(x.dtype), body)};
      },
  };
}

}  // namespace

const Primitive& cumsum_p() {
  static const Primitive p =
      cumulative_primitive({.name = "cumsum",
                            .stablehlo = "add",
                            .expected = "numbers",
                            .takes = rules::is_number,
                            .identity = [](DType) { return Scalar::of(0); },
                            .self = cumsum_p,
                            .join_values = lax::add<Value>,
                            .jvp = rules::linear_jvp(cumsum_p),
                            .transpose = [](const TransposeCall& call) -> Tangents {
                              const auto& p = call.params.as<CumulativeParams>();
                              return {lax::cumulative(cumsum_p(), *call.cotangents[0], p.axis, !p.reverse)};
                            }});
  return p;
}

const Primitive& cumprod_p() {
  static const Primitive p =
      cumulative_primitive({.name = "cumprod",
                            .stablehlo = "multiply",
                            .expected = "numbers",
                            .takes = rules::is_number,
                            .identity = [](DType) { return Scalar::of(1); },
                            .self = cumprod_p,
                            .join_values = lax::mul<Value>,
                            .jvp = [](const JvpCall& call) { return scan_jvp(call, join_products); }});
  return p;
}

const Primitive& cummax_p() {
  static const Primitive p =
      cumulative_primitive({.name = "cummax",
                            .stablehlo = "maximum",
                            .expected = "numbers",
                            .takes = rules::is_number,
                            .identity = [](DType dtype) { return rules::extreme(dtype, -1); },
                            .self = cummax_p,
                            .join_values = lax::max<Value>,
                            .jvp = [](const JvpCall& call) { return scan_jvp(call, join_largest); }});
  return p;
}

const Primitive& cummin_p() {
  static const Primitive p =
      cumulative_primitive({.name = "cummin",
                            .stablehlo = "minimum",
                            .expected = "numbers",
                            .takes = rules::is_number,
                            .identity = [](DType dtype) { return rules::extreme(dtype, 1); },
                            .self = cummin_p,
                            .join_values = lax::min<Value>,
                            .jvp = [](const JvpCall& call) { return scan_jvp(call, join_smallest); }});
  return p;
}

const Primitive& cumlogsumexp_p() {
  static const Primitive p =
      cumulative_primitive({.name = "cumlogsumexp",
                            .expected = "floating or complex numbers",
                            .takes = is_inexact,
                            .identity = [](DType dtype) { return rules::extreme(dtype, -1); },
                            .self = cumlogsumexp_p,
                            .join_values = lax::logaddexp<Value>,
                            .jvp = [](const JvpCall& call) { return scan_jvp(call, join_logsumexp); }});
  return p;
}

}  // namespace lockstep::ir
