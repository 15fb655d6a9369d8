// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/convolution.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/onednn/onednn.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/precision.h"
#include "lockstep/program/primitives/convolution_on_cpus.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/reverse.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/primitives/windowed.h"

namespace lockstep::ir {
namespace {

using Integers = std::vector<std::int64_t>;
using rules::WindowedDim;

std::int64_t size_at(const Shape& shape, const Integers& spec, std::size_t i) {
  return shape[static_cast<std::size_t>(spec[i])];
}

void check_spec(const Integers& spec, const Aval& of, std::string_view what) {
  Integers sorted = spec;
  std::ranges::sort(sorted);
  bool fits = spec.size() == of.shape.size();
  for (std::size_t i = 0; fits && i < sorted.size(); ++i) fits = sorted[i] == static_cast<std::int64_t>(i);
  if (!fits) {
    fail<ShapeError>("expected dimension numbers of {} that name each dimension of {} once, got {}", what,
                     to_string(of), to_string(spec));
  }
}

std::vector<Aval> conv_shape(std::span<const Aval> inputs, const OpParams& params) {
  const auto& p = params.as<ConvParams>();
  const Aval &lhs = inputs[0], &rhs = inputs[1];
  rules::same_dtypes(inputs);
  if (lhs.dtype == DType::kBool)
    fail<DTypeError>("expected numbers, got {}; convert with astype", to_string(lhs));
  if (lhs.rank() < 2 || rhs.rank() != lhs.rank()) {
    fail<ShapeError>("expected an operand and kernels of the same rank, at least 2, got {} and {}",
                     to_string(lhs), to_string(rhs));
  }
  check_spec(p.lhs_spec, lhs, "the operand");
  check_spec(p.rhs_spec, rhs, "the kernels");
  check_spec(p.out_spec, lhs, "the result");
  const std::size_t spatial = lhs.shape.size() - 2;
  for (const auto* list :
       {&p.window_strides, &p.padding_low, &p.padding_high, &p.lhs_dilation, &p.rhs_dilation}) {
    if (list->size() != spatial) {
      fail<ShapeError>(
          "expected a stride, a padding and dilations for each of the {} spatial dimensions of {}, got {}",
          spatial, to_string(lhs), to_string(*list));
    }
  }
  const std::int64_t groups = p.feature_group_count, batch_groups = p.batch_group_count;
  const std::int64_t batch = size_at(lhs.shape, p.lhs_spec, 0), features = size_at(lhs.shape, p.lhs_spec, 1);
  const std::int64_t kernels = size_at(rhs.shape, p.rhs_spec, 0), depth = size_at(rhs.shape, p.rhs_spec, 1);
  if (groups < 1 || batch_groups < 1 || (groups > 1 && batch_groups > 1)) {
    fail<ShapeError>(
        "expected one of feature_group_count and batch_group_count to be 1, the other 1 or more, got {} and "
        "{}",
        groups, batch_groups);
  }
  if (features != depth * groups) {
    fail<ShapeError>(
        "expected as many features of {} (dimension {}) as input features of {} (dimension {}) times "
        "feature_group_count, got {}, {} and {}",
        to_string(lhs), p.lhs_spec[1], to_string(rhs), p.rhs_spec[1], features, depth, groups);
  }
  if (kernels % groups != 0 || kernels % batch_groups != 0 || batch % batch_groups != 0) {
    fail<ShapeError>(
        "expected {} output features of {} and a batch of {} that feature_group_count {} and "
        "batch_group_count {} divide",
        kernels, to_string(rhs), batch, groups, batch_groups);
  }
  Shape shape(lhs.shape.size());
  auto set = [&](std::size_t i, std::int64_t size) { shape[static_cast<std::size_t>(p.out_spec[i])] = size; };
  set(0, batch / batch_groups);
  set(1, kernels);
  for (std::size_t i = 0; i < spatial; ++i) {
    if (p.window_strides[i] < 1 || p.lhs_dilation[i] < 1 || p.rhs_dilation[i] < 1) {
      fail<ShapeError>("expected strides and dilations of 1 or more, got {}, {} and {}",
                       to_string(p.window_strides), to_string(p.lhs_dilation), to_string(p.rhs_dilation));
    }
    if (size_at(rhs.shape, p.rhs_spec, i + 2) < 1)
      fail<ShapeError>("expected kernels of 1 or more elements in each spatial dimension, got {}",
                       to_string(rhs));
    const std::int64_t size = size_at(lhs.shape, p.lhs_spec, i + 2);
    if (p.padding_low[i] + dilated(size, p.lhs_dilation[i]) + p.padding_high[i] < 0) {
      fail<ShapeError>("padding spatial dimension {} of {} by {} and {} leaves no valid size", i,
                       to_string(lhs), p.padding_low[i], p.padding_high[i]);
    }
    set(i + 2, window_count(size, size_at(rhs.shape, p.rhs_spec, i + 2), p.window_strides[i],
                            p.padding_low[i], p.padding_high[i], p.lhs_dilation[i], p.rhs_dilation[i]));
  }
  Aval out = rules::with_shape(lhs, std::move(shape));
  if (p.preferred_element_type) {
    out.dtype = product_dtype(lhs.dtype, p.preferred_element_type);
    out.weak_type = false;
  }
  return {out};
}

/// The split of a spatial dimension: that of the operand together with the result's; or, if the kernels are
/// larger than the result, as in the derivative with respect to them, together with the kernels', and results
/// are summed.
struct SpatialDim {
  std::size_t lhs, rhs;
  int factor;
  bool by_kernel;
  WindowedDim dim;  ///< the operand under the result's elements, or under the kernels'
  std::int64_t results;
};

std::vector<SpatialDim> split_spatial(ShardingRule& rule, std::span<const Aval> inputs, const Aval& output,
                                      const ConvParams& p) {
  std::vector<SpatialDim> dims;
  for (std::size_t i = 0; i < p.window_strides.size(); ++i) {
    const auto lhs = static_cast<std::size_t>(p.lhs_spec[i + 2]),
               rhs = static_cast<std::size_t>(p.rhs_spec[i + 2]),
               out = static_cast<std::size_t>(p.out_spec[i + 2]);
    const std::int64_t size = inputs[0].shape[lhs], kernel = inputs[1].shape[rhs],
                       results = output.shape[out];
    const bool by_kernel = kernel > results;
    WindowedDim dim{size,
                    results,
                    p.window_strides[i],
                    p.padding_low[i],
                    p.lhs_dilation[i],
                    dilated(kernel, p.rhs_dilation[i])};
    if (by_kernel)
      dim = {size,
             kernel,
             p.rhs_dilation[i],
             p.padding_low[i],
             p.lhs_dilation[i],
             dilated(results, p.window_strides[i])};
    const auto factor = static_cast<int>(rule.factors.size());
    rule.factors.push_back(dim.factor());
    rule.operands[0][lhs] = factor;
    (by_kernel ? rule.operands[1][rhs] : rule.results[0][out]) = factor;
    if (by_kernel) rule.factors.back().combine = ShardingRule::Combine::kSum;
    dims.push_back({lhs, rhs, factor, by_kernel, dim, results});
  }
  return dims;
}

/// The computation of a device if spatial dimensions are split: it fetches the elements of its windows from
/// the others.
std::vector<Value> conv_of_parts(const OpParams& local, std::span<const Value> operands,
                                 const PartPlaces& places, const std::vector<SpatialDim>& dims) {
  ConvParams p = local.as<ConvParams>();
  Value x = operands[0];
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (!places.is_split(dims[i].factor)) continue;
    const rules::LocalDim part = part_of_result(dims[i].dim, places.num_parts(dims[i].factor));
    x = places.window(x, dims[i].lhs, dims[i].factor, part.windows, rules::zeros(x, {x.aval().dtype, {}}));
    p.padding_low[i] = part.low;
    p.padding_high[i] = part.high;
  }
  return {lax::conv_general_dilated(x, operands[1], p)};
}

ShardingRule conv_sharding(std::span<const Aval> inputs, std::span<const Aval> outputs,
                           const OpParams& params) {
  const auto& p = params.as<ConvParams>();
  ShardingRule rule = ShardingRule::replicated(inputs, outputs);
  auto factor = [&rule](std::int64_t size, ShardingRule::Combine combine = ShardingRule::Combine::kNone) {
    rule.factors.push_back({size, combine});
    return static_cast<int>(rule.factors.size()) - 1;
  };
  auto lhs = [&](std::size_t i) -> int& { return rule.operands[0][static_cast<std::size_t>(p.lhs_spec[i])]; };
  auto rhs = [&](std::size_t i) -> int& { return rule.operands[1][static_cast<std::size_t>(p.rhs_spec[i])]; };
  auto out = [&](std::size_t i) -> int& { return rule.results[0][static_cast<std::size_t>(p.out_spec[i])]; };
  if (p.batch_group_count > 1) {
    lhs(0) = rhs(0) = out(1) = factor(p.batch_group_count);
    // A split of the groups takes the whole batch of each, and the result's batch stays.
    rule.localize = [](const OpParams& params, const std::vector<Shape>& operands,
                       const std::vector<Shape>& results) {
      ConvParams local = params.as<ConvParams>();
      local.batch_group_count = size_at(operands[0], local.lhs_spec, 0) /
                                std::max<std::int64_t>(size_at(results[0], local.out_spec, 0), 1);
      return OpParams::of(local);
    };
  } else {
    lhs(0) = out(0) = factor(size_at(inputs[0].shape, p.lhs_spec, 0));
    if (p.feature_group_count > 1) {
      lhs(1) = rhs(0) = out(1) = factor(p.feature_group_count);
      rule.localize = [](const OpParams& params, const std::vector<Shape>& operands,
                         const std::vector<Shape>&) {
        ConvParams local = params.as<ConvParams>();
        local.feature_group_count =
            size_at(operands[0], local.lhs_spec, 1) / size_at(operands[1], local.rhs_spec, 1);
        return OpParams::of(local);
      };
    } else {
      rhs(0) = out(1) = factor(size_at(inputs[1].shape, p.rhs_spec, 0));
      lhs(1) = rhs(1) = factor(size_at(inputs[1].shape, p.rhs_spec, 1), ShardingRule::Combine::kSum);
    }
  }
  rule.write = [dims = split_spatial(rule, inputs, outputs[0], p)](
                   const OpParams& local, std::span<const Value> operands, const PartPlaces& places) {
    return conv_of_parts(local, operands, places, dims);
  };
  return rule;
}

/// Dimension d, of `outer` times the size that remains, cut in two: the outer one, then the rest.
Value cut(const Value& x, std::int64_t d, std::int64_t outer) {
  Shape shape = x.aval().shape;
  const auto at = static_cast<std::size_t>(d);
  shape[at] /= outer;
  shape.insert(shape.begin() + d, outer);
  return lax::reshape(x, shape);
}

/// Dimension `from` moved before dimension `to` (counted without it) and made one with it.
Value merged(const Value& x, std::int64_t from, std::int64_t to) {
  const Shape shape = x.aval().shape;
  Integers order;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(shape.size()); ++d) {
    if (d != from) order.push_back(d);
  }
  order.insert(order.begin() + to, from);
  Shape joined;
  for (std::int64_t d : order) joined.push_back(shape[static_cast<std::size_t>(d)]);
  const auto at = static_cast<std::size_t>(to);
  joined[at + 1] *= joined[at];
  joined.erase(joined.begin() + to);
  return lax::reshape(lax::transpose(x, order), joined);
}

/// The groups of one dimension made part of another: `from` holds the groups, outermost.
Value regrouped(const Value& x, std::int64_t from, std::int64_t to, std::int64_t groups) {
  return merged(cut(x, from, groups), from, to);
}

Integers swapped(Integers spec) {
  std::swap(spec[0], spec[1]);
  return spec;
}

Integers spatial(const Shape& shape, const Integers& spec) {
  Integers sizes;
  for (std::size_t i = 2; i < spec.size(); ++i) sizes.push_back(size_at(shape, spec, i));
  return sizes;
}

/// The cotangents, dilated by the strides, convolved with the kernels turned round.
Value transpose_lhs(const Value& ct, const TransposeCall& call, Value rhs) {
  const auto& p = call.params.as<ConvParams>();
  const Integers in = spatial(call.operands[0].aval.shape, p.lhs_spec),
                 kernel = spatial(call.operands[1].aval.shape, p.rhs_spec),
                 out = spatial(call.results[0].shape, p.out_spec);
  const std::int64_t groups = std::max(p.feature_group_count, p.batch_group_count);
  if (groups > 1) rhs = regrouped(rhs, p.rhs_spec[0], p.rhs_spec[1], groups);
  ConvParams t{
      p.lhs_dilation, {}, {}, p.window_strides, p.rhs_dilation, p.out_spec, swapped(p.rhs_spec), p.lhs_spec,
      groups,         1,  {}, p.precision};
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::int64_t window = dilated(kernel[i], p.rhs_dilation[i]), before = window - p.padding_low[i] - 1;
    t.padding_low.push_back(before);
    t.padding_high.push_back(dilated(in[i], p.lhs_dilation[i]) + window - 1 -
                             dilated(out[i], p.window_strides[i]) - before);
  }
  const Integers turned(p.rhs_spec.begin() + 2, p.rhs_spec.end());
  Value result = lax::conv_general_dilated(ct, lax::rev(rhs, turned), t);
  if (p.batch_group_count > 1) result = regrouped(result, p.lhs_spec[1], p.lhs_spec[0], p.batch_group_count);
  return result;
}

/// The operand convolved with the cotangents: batch and features change places.
Value transpose_rhs(const Value& ct, const TransposeCall& call, const Value& lhs) {
  const auto& p = call.params.as<ConvParams>();
  const Integers in = spatial(call.operands[0].aval.shape, p.lhs_spec),
                 kernel = spatial(call.operands[1].aval.shape, p.rhs_spec),
                 out = spatial(call.results[0].shape, p.out_spec);
  ConvParams t{p.rhs_dilation,
               p.padding_low,
               {},
               p.lhs_dilation,
               p.window_strides,
               swapped(p.lhs_spec),
               swapped(p.out_spec),
               swapped(p.rhs_spec),
               p.batch_group_count,
               p.feature_group_count,
               {},
               p.precision};
  for (std::size_t i = 0; i < in.size(); ++i) {
    t.padding_high.push_back(dilated(out[i], p.window_strides[i]) - dilated(in[i], p.lhs_dilation[i]) +
                             dilated(kernel[i], p.rhs_dilation[i]) - p.padding_low[i] - 1);
  }
  return lax::conv_general_dilated(lhs, ct, t);
}

/// The mapped dimension, in front of a result in which it is the outer part of dimension d.
Value unmerged(const Value& x, std::int64_t d, std::int64_t size) {
  const Value apart = cut(x, d, size);
  Integers order;
  for (std::int64_t i = 0; i < apart.aval().rank(); ++i) {
    if (i != d) order.push_back(i);
  }
  order.insert(order.begin(), d);
  return lax::transpose(apart, order);
}

std::vector<Value> conv_batching(const BatchCall& call) {
  ConvParams p = call.params.as<ConvParams>();
  if (!call.batched[1] && p.batch_group_count == 1) {
    const Value lhs = merged(call.inputs[0], 0, p.lhs_spec[0]);
    return {unmerged(lax::conv_general_dilated(lhs, call.inputs[1], p), p.out_spec[0], call.size)};
  }
  if (!call.batched[0] && p.batch_group_count == 1 && p.feature_group_count == 1) {
    const Value rhs = merged(call.inputs[1], 0, p.rhs_spec[0]);
    return {unmerged(lax::conv_general_dilated(call.inputs[0], rhs, p), p.out_spec[1], call.size)};
  }
  auto whole = [&](std::size_t i) {
    return call.batched[i] ? call.inputs[i] : rules::broadcast_leading(call.inputs[i], call.size);
  };
  const Value rhs = merged(whole(1), 0, p.rhs_spec[0]);
  const bool by_batch = p.batch_group_count > 1;
  const Value lhs = merged(whole(0), 0, p.lhs_spec[by_batch ? 0 : 1]);
  (by_batch ? p.batch_group_count : p.feature_group_count) *= call.size;
  return {unmerged(lax::conv_general_dilated(lhs, rhs, p), p.out_spec[1], call.size)};
}

/// "b, 0, 1, f": the meaning of each dimension.
std::string spec_text(const Integers& spec, char first, char second) {
  std::vector<std::string> names(spec.size());
  for (std::size_t i = 0; i < spec.size(); ++i) {
    std::string& name = names[static_cast<std::size_t>(spec[i])];
    name = i == 0 ? std::string(1, first) : i == 1 ? std::string(1, second) : std::to_string(i - 2);
  }
  return fmt::format("[{}]", fmt::join(names, ", "));
}

double conv_flops(std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params) {
  const Aval& kernels = inputs[1];
  const auto features = static_cast<std::size_t>(params.as<ConvParams>().rhs_spec[0]);
  const double each = static_cast<double>(kernels.num_elements()) /
                      static_cast<double>(std::max<std::int64_t>(kernels.shape[features], 1));
  return 2 * flops_of_results(inputs, outputs, params) * each;
}

/// The convolution by oneDNN, if it is installed and faster than XLA.
std::optional<std::string> onednn_call(Lowering& out, const Equation& e, const ConvParams& p) {
  const Aval &lhs = out.operand_aval(e, 0), &rhs = out.operand_aval(e, 1), &result = out.result_aval(e);
  if (!out.onednn_takes(lhs.dtype, result.dtype) || lhs.num_elements() == 0 || result.num_elements() == 0 ||
      !onednn::computes({lhs.shape, rhs.shape, result.shape, p.lhs_spec, p.rhs_spec, p.out_spec,
                         p.window_strides, p.padding_low, p.padding_high, p.lhs_dilation, p.rhs_dilation,
                         p.feature_group_count, p.batch_group_count}))
    return std::nullopt;
  return out
      .onednn_call(
          fmt::format(
              "operation = \"convolution\", lhs_spec = {}, rhs_spec = {}, out_spec = {}, strides = {}, "
              "low = {}, high = {}, lhs_dilation = {}, rhs_dilation = {}, groups = {}",
              mlir_array(p.lhs_spec), mlir_array(p.rhs_spec), mlir_array(p.out_spec),
              mlir_array(p.window_strides), mlir_array(p.padding_low), mlir_array(p.padding_high),
              mlir_array(p.lhs_dilation), mlir_array(p.rhs_dilation),
              mlir_array(std::array{p.feature_group_count, p.batch_group_count})),
          std::array{std::pair(out.operand(e, 0), lhs), std::pair(out.operand(e, 1), rhs)}, {{result}})
      .front();
}

/// The operand after its padding, where XLA's CPU compiler needs that; the padding is taken out of `p`. The
/// barrier keeps XLA from putting it back.
std::string padded(Lowering& out, const Equation& e, const EarlyPadding& padding, Aval& lhs, ConvParams& p) {
  const std::string zero = out.splat(Scalar::of(0), lhs.dtype, {});
  const std::string types[] = {out.operand_type(e, 0), mlir_type(lhs.dtype, {})};
  for (std::size_t d = 0; d < lhs.shape.size(); ++d) lhs.shape[d] += padding.low[d] + padding.high[d];
  for (std::size_t i = 0; i < p.window_strides.size(); ++i) {
    const auto d = static_cast<std::size_t>(p.lhs_spec[i + 2]);
    p.padding_low[i] -= padding.low[d], p.padding_high[i] -= padding.high[d];
  }
  const std::string operands[] = {out.operand(e, 0), zero};
  const std::string name =
      out.op("stablehlo.pad", operands, types, mlir_type(lhs),
             fmt::format("edge_padding_low = {}, edge_padding_high = {}, interior_padding = {}",
                         mlir_array(padding.low), mlir_array(padding.high),
                         mlir_array(Integers(lhs.shape.size(), 0))));
  return out.barrier({name}, {mlir_type(lhs)})[0];
}

std::vector<std::string> lower_conv(Lowering& out, const Equation& e) {
  ConvParams p = e.params.as<ConvParams>();
  Aval lhs = out.operand_aval(e, 0);
  const Shape &kernels = out.operand_aval(e, 1).shape, &result = out.result_aval(e).shape;
  std::string operand = out.operand(e, 0);
  if (out.for_cpu()) {
    if (is_product(lhs.shape, kernels, result, p)) {
      return out.composed(e, "conv_as_product", [&](const std::vector<Value>& operands) {
        return as_product(operands[0], operands[1], result, p);
      });
    }
    if (const auto call = onednn_call(out, e, p)) return {*call};
    if (const auto padding = early_padding(lhs.shape, kernels, p)) operand = padded(out, e, *padding, lhs, p);
  }
  const std::size_t n = p.window_strides.size();
  std::string pairs;
  for (std::size_t i = 0; i < n; ++i)
    pairs += fmt::format("{}[{}, {}]", i == 0 ? "" : ", ", p.padding_low[i], p.padding_high[i]);
  const std::string padding =
      n == 0 ? "dense<> : tensor<0x2xi64>" : fmt::format("dense<[{}]> : tensor<{}x2xi64>", pairs, n);
  const std::string operands[] = {operand, out.operand(e, 1)},
                    types[] = {mlir_type(lhs), out.operand_type(e, 1)};
  return {
      out.op("stablehlo.convolution", operands, types, out.result_type(e),
             fmt::format("dimension_numbers = #stablehlo.conv<{}x{}->{}>, window_strides = {}, padding = {}, "
                         "lhs_dilation = {}, rhs_dilation = {}, feature_group_count = {} : i64, "
                         "batch_group_count = {} : i64{}",
                         spec_text(p.lhs_spec, 'b', 'f'), spec_text(p.rhs_spec, 'o', 'i'),
                         spec_text(p.out_spec, 'b', 'f'), mlir_array(p.window_strides), padding,
                         mlir_array(p.lhs_dilation), mlir_array(p.rhs_dilation), p.feature_group_count,
                         p.batch_group_count, precision_attribute(p.precision)))};
}

}  // namespace

const Primitive& conv_general_dilated_p() {
  static const Primitive p = {
      .name = "conv_general_dilated",
      .shape = conv_shape,
      .sharding = conv_sharding,
      .jvp = rules::bilinear_jvp(conv_general_dilated_p),
      .transpose = [](const TransposeCall& call) -> Tangents {
        const Value& ct = *call.cotangents[0];
        // Without elements it contributes nothing, and cannot be used as a kernel.
        if (ct.aval().num_elements() == 0) return {std::nullopt, std::nullopt};
        // In the dtype of the result, which may be wider than the operands'.
        auto converted = [](const Value& x, DType dtype) {
          return x.aval().dtype == dtype ? x : lax::convert_element_type(x, dtype);
        };
        auto other = [&](std::size_t i) { return converted(*call.operands[i].value, ct.aval().dtype); };
        auto mine = [&](std::size_t i, const Value& x) { return converted(x, call.operands[i].aval.dtype); };
        if (call.operands[0].linear()) return {mine(0, transpose_lhs(ct, call, other(1))), std::nullopt};
        return {std::nullopt, mine(1, transpose_rhs(ct, call, other(0)))};
      },
      .batching = conv_batching,
      .flops = conv_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = lower_conv,
      .linear = {.together = {{0}, {1}}},
  };
  return p;
}

}  // namespace lockstep::ir
