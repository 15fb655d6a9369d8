// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/window.h"

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/primitives/window_text.h"
#include "lockstep/program/primitives/windowed.h"

namespace lockstep::ir {

std::int64_t dilated(std::int64_t size, std::int64_t dilation) {
  return size == 0 ? 0 : (size - 1) * dilation + 1;
}

std::int64_t window_count(std::int64_t size, std::int64_t window, std::int64_t stride, std::int64_t low,
                          std::int64_t high, std::int64_t base_dilation, std::int64_t window_dilation) {
  const std::int64_t space = low + dilated(size, base_dilation) + high - dilated(window, window_dilation);
  return space < 0 ? 0 : space / stride + 1;
}

Padding named_padding(std::string_view name, const Shape& sizes, const std::vector<std::int64_t>& windows,
                      const std::vector<std::int64_t>& strides) {
  Padding padding(sizes.size());
  if (name == "VALID") return padding;
  if (name != "SAME" && name != "SAME_LOWER")
    fail<ShapeError>("expected a padding of \"SAME\", \"SAME_LOWER\", \"VALID\" or numbers, got \"{}\"",
                     name);
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const std::int64_t count = (sizes[d] + strides[d] - 1) / strides[d];
    const std::int64_t total = std::max<std::int64_t>((count - 1) * strides[d] + windows[d] - sizes[d], 0);
    const std::int64_t less = total / 2, more = total - less;
    padding[d] = name == "SAME" ? std::pair(less, more) : std::pair(more, less);
  }
  return padding;
}

std::string window_text(const WindowParams& p) {
  std::string pairs;
  for (std::size_t d = 0; d < p.padding_low.size(); ++d)
    pairs += fmt::format("{}[{}, {}]", d == 0 ? "" : ", ", p.padding_low[d], p.padding_high[d]);
  return fmt::format(
      "window_dimensions = {}, window_strides = {}, base_dilations = {}, window_dilations = {}, padding = "
      "dense<[{}]> : tensor<{}x2xi64>",
      mlir_array(p.window_dimensions), mlir_array(p.window_strides), mlir_array(p.base_dilation),
      mlir_array(p.window_dilation), pairs, p.padding_low.size());
}

std::string lower_reduce_window(Lowering& out, const Equation& e, const WindowParams& params,
                                const Scalar& identity, const std::string& body) {
  const DType dtype = out.operand_aval(e, 0).dtype;
  const std::string element = mlir_type(dtype, {});
  const std::string operands[] = {out.operand(e, 0), out.splat(identity, dtype, {})};
  const std::string types[] = {out.operand_type(e, 0), element};
  const std::string region =
      fmt::format("^bb0(%a: {0}, %b: {0}):{1} \"stablehlo.return\"(%c) : ({0}) -> ()", element, body);
  return out.op("stablehlo.reduce_window", operands, types, out.result_type(e), window_text(params), region);
}

namespace {

/// The one of two complex numbers whose real part wins, or, where these are equal, whose imaginary part does.
std::string complex_extreme_text(std::string_view result, std::string_view wins, std::string_view a,
                                 std::string_view b, DType dtype) {
  const std::string type = mlir_type(dtype, {}), real = mlir_type(real_dtype(dtype), {});
  std::string text;
  for (std::string_view part : {"real", "imag"})
    for (std::string_view x : {a, b})
      text += fmt::format(" {0}_{1}_{2} = \"stablehlo.{1}\"({3}) : ({4}) -> {5}", result, part, x.substr(1),
                          x, type, real);
  auto compare = [&](std::string_view name, std::string_view part, std::string_view direction) {
    text += fmt::format(
        " {0}_{1} = \"stablehlo.compare\"({0}_{2}_{3}, {0}_{2}_{4}) {{comparison_direction = "
        "#stablehlo<comparison_direction {5}>}} : ({6}, {6}) -> tensor<i1>",
        result, name, part, a.substr(1), b.substr(1), direction, real);
  };
  compare("same", "real", "EQ");
  compare("first", "real", wins);
  compare("then", "imag", wins);
  return text + fmt::format(
                    " {0}_wins = \"stablehlo.select\"({0}_same, {0}_then, {0}_first) : (tensor<i1>, "
                    "tensor<i1>, tensor<i1>) -> tensor<i1> {0} = \"stablehlo.select\"({0}_wins, {1}, {2}) : "
                    "(tensor<i1>, {3}, {3}) -> {3}",
                    result, a, b, type);
}

}  // namespace

std::string binary_text(std::string_view result, std::string_view op, std::string_view a, std::string_view b,
                        DType dtype) {
  if (is_complex(dtype) && (op == "maximum" || op == "minimum"))
    return complex_extreme_text(result, op == "maximum" ? "GT" : "LT", a, b, dtype);
  return fmt::format(" {0} = \"stablehlo.{1}\"({2}, {3}) : ({4}, {4}) -> {4}", result, op, a, b,
                     mlir_type(dtype, {}));
}

namespace {

using Integers = std::vector<std::int64_t>;

std::vector<Aval> window_shape(std::span<const Aval> inputs, const OpParams& params) {
  const auto& p = params.as<WindowParams>();
  const Aval& x = inputs[0];
  if (x.dtype == DType::kBool)
    fail<DTypeError>("expected numbers, got {}; convert with astype", to_string(x));
  rules::check_rank(p.window_dimensions.size(), x, "a window size");
  rules::check_rank(p.window_strides.size(), x, "a stride");
  rules::check_rank(p.padding_low.size(), x, "a padding");
  rules::check_rank(p.base_dilation.size(), x, "a base dilation");
  rules::check_rank(p.window_dilation.size(), x, "a window dilation");
  Shape shape;
  for (std::size_t d = 0; d < x.shape.size(); ++d) {
    if (p.window_dimensions[d] < 1 || p.window_strides[d] < 1 || p.base_dilation[d] < 1 ||
        p.window_dilation[d] < 1) {
      fail<ShapeError>(
          "expected a window, a stride and dilations of 1 or more in dimension {} of {}, got "
          "{}, {}, {} and {}",
          d, to_string(x), p.window_dimensions[d], p.window_strides[d], p.base_dilation[d],
          p.window_dilation[d]);
    }
    shape.push_back(window_count(x.shape[d], p.window_dimensions[d], p.window_strides[d], p.padding_low[d],
                                 p.padding_high[d], p.base_dilation[d], p.window_dilation[d]));
  }
  return {rules::with_shape(x, std::move(shape))};
}

ShardingRule window_sharding(const Primitive& self, Scalar (*identity)(DType), std::span<const Aval> inputs,
                             std::span<const Aval> outputs, const OpParams& params) {
  const auto& p = params.as<WindowParams>();
  std::vector<rules::WindowedDim> dims;
  for (std::size_t d = 0; d < inputs[0].shape.size(); ++d)
    dims.push_back({inputs[0].shape[d], outputs[0].shape[d], p.window_strides[d], p.padding_low[d],
                    p.base_dilation[d], dilated(p.window_dimensions[d], p.window_dilation[d])});
  ShardingRule rule = rules::windowed(inputs, outputs, dims);
  rule.write = [&self, dims, identity](const OpParams& local, std::span<const Value> operands,
                                       const PartPlaces& places) -> std::vector<Value> {
    WindowParams p = local.as<WindowParams>();
    const Aval& aval = operands[0].aval();
    const Value fill = lax::full(operands[0], identity(aval.dtype), aval.dtype, {}, aval.weak_type);
    const Value x = rules::brought(operands[0], dims, places, fill, p.padding_low, p.padding_high);
    return {lax::apply1<Value>(self, OpParams::of(std::move(p)), {x})};
  };
  return rule;
}

std::vector<Value> window_batching(const Primitive& self, const BatchCall& call) {
  const auto& p = call.params.as<WindowParams>();
  return {lax::apply1<Value>(
      self,
      OpParams::of(WindowParams{rules::prepended(1, p.window_dimensions),
                                rules::prepended(1, p.window_strides), rules::prepended(0, p.padding_low),
                                rules::prepended(0, p.padding_high), rules::prepended(1, p.base_dilation),
                                rules::prepended(1, p.window_dilation)}),
      {call.inputs[0]})};
}

Value zero_scalar(const Value& like) { return rules::zeros(like, {like.aval().dtype, {}}); }

/// Each element gets the sum of the cotangents of the windows that contain it: a window of the same size
/// moves over the cotangents, which are a stride apart.
Tangents transpose_of_sum(const TransposeCall& call) {
  const auto& p = call.params.as<WindowParams>();
  const Shape &from = call.operands[0].aval.shape, &to = call.results[0].shape;
  const Value& ct = *call.cotangents[0];
  Integers low, high, interior, ones(from.size(), 1), none(from.size(), 0);
  for (std::size_t d = 0; d < from.size(); ++d) {
    const std::int64_t window = dilated(p.window_dimensions[d], p.window_dilation[d]);
    const std::int64_t before = window - p.padding_low[d] - 1;
    low.push_back(before);
    high.push_back(dilated(from[d], p.base_dilation[d]) + window - 1 - dilated(to[d], p.window_strides[d]) -
                   before);
    interior.push_back(p.window_strides[d] - 1);
  }
  Value spread = lax::pad(ct, zero_scalar(ct), low, high, interior);
  return {lax::apply1<Value>(
      reduce_window_sum_p(),
      OpParams::of(WindowParams{p.window_dimensions, p.base_dilation, none, none, ones, p.window_dilation}),
      {spread})};
}

/// Goes through the places of a window, from the first to the last, and keeps the value and the tangent of
/// the largest (smallest) so far, of equals the first.
Tangents jvp_of_extreme(const JvpCall& call, bool largest) {
  if (!call.tangents[0]) return {std::nullopt};
  const WindowParams p = call.params.as<WindowParams>();
  const Value result = call.outputs[0];
  const Shape shape = result.aval().shape;
  const DType dtype = result.aval().dtype;
  if (num_elements(shape) == 0) return {std::nullopt};
  Integers interior = p.base_dilation;
  for (std::int64_t& between : interior) --between;
  auto padded = [&](const Value& x, const Scalar& with) {
    return lax::pad(x, lax::full(x, with, dtype, {}), p.padding_low, p.padding_high, interior);
  };
  const Value x = padded(call.inputs[0], rules::extreme(dtype, largest ? -1 : 1));
  const Value t = padded(*call.tangents[0], Scalar::of(0.0));
  std::optional<Value> best, tangent;
  Integers place(shape.size(), 0);
  for (std::int64_t n = num_elements(p.window_dimensions); n > 0; --n) {
    Integers start, limit;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      start.push_back(place[d] * p.window_dilation[d]);
      limit.push_back(start[d] + (shape[d] - 1) * p.window_strides[d] + 1);
    }
    const Value here = lax::slice(x, start, limit, p.window_strides);
    const Value there = lax::slice(t, start, limit, p.window_strides);
    if (!best) {
      best = here;
      tangent = there;
    } else {
      const Value wins = largest ? lax::gt(here, *best) : lax::lt(here, *best);
      best = lax::select(wins, here, *best);
      tangent = lax::select(wins, there, *tangent);
    }
    for (std::size_t d = place.size(); d-- > 0;) {
      if (++place[d] < p.window_dimensions[d]) break;
      place[d] = 0;
    }
  }
  return {tangent};
}

struct WindowKind {
  std::string name, stablehlo;
  Scalar (*identity)(DType);
  const Primitive& (*self)();
  JvpRule jvp;
  std::function<Tangents(const TransposeCall&)> transpose = not_linear;
  bool ordered = true;
};

double window_flops(std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params) {
  return flops_of_results(inputs, outputs, params) *
         static_cast<double>(num_elements(params.as<WindowParams>().window_dimensions));
}

Primitive window_primitive(WindowKind kind) {
  return {
      .name = kind.name,
      .shape =
          [ordered = kind.ordered](std::span<const Aval> inputs, const OpParams& params) {
            if (ordered && info(inputs[0].dtype).kind == DTypeKind::kComplex)
              fail<DTypeError>("expected real numbers, got {}", to_string(inputs[0]));
            return window_shape(inputs, params);
          },
      .sharding =
          [self = kind.self, identity = kind.identity](
              std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params) {
            return window_sharding(self(), identity, inputs, outputs, params);
          },
      .jvp = std::move(kind.jvp),
      .transpose = std::move(kind.transpose),
      .batching = [self = kind.self](const BatchCall& call) { return window_batching(self(), call); },
      .flops = window_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [stablehlo = kind.stablehlo, identity = kind.identity](
                   Lowering& out, const Equation& e) -> std::vector<std::string> {
        const DType dtype = out.operand_aval(e, 0).dtype;
        const auto& p = e.params.as<WindowParams>();
        if (p.window_dimensions.empty()) return {out.operand(e, 0)};
        return {
            lower_reduce_window(out, e, p, identity(dtype), binary_text("%c", stablehlo, "%a", "%b", dtype))};
      },
  };
}

}  // namespace

const Primitive& reduce_window_sum_p() {
  static const Primitive p = window_primitive({.name = "reduce_window_sum",
                                               .stablehlo = "add",
                                               .identity = [](DType) { return Scalar::of(0); },
                                               .self = reduce_window_sum_p,
                                               .jvp = rules::linear_jvp(reduce_window_sum_p),
                                               .transpose = transpose_of_sum,
                                               .ordered = false});
  return p;
}

const Primitive& reduce_window_max_p() {
  static const Primitive p =
      window_primitive({.name = "reduce_window_max",
                        .stablehlo = "maximum",
                        .identity = [](DType dtype) { return rules::extreme(dtype, -1); },
                        .self = reduce_window_max_p,
                        .jvp = [](const JvpCall& call) { return jvp_of_extreme(call, true); }});
  return p;
}

const Primitive& reduce_window_min_p() {
  static const Primitive p =
      window_primitive({.name = "reduce_window_min",
                        .stablehlo = "minimum",
                        .identity = [](DType dtype) { return rules::extreme(dtype, 1); },
                        .self = reduce_window_min_p,
                        .jvp = [](const JvpCall& call) { return jvp_of_extreme(call, false); }});
  return p;
}

}  // namespace lockstep::ir
