// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/collectives.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/rules.h"

namespace lockstep::ir {
namespace {

using collectives::Collective;
using collectives::Kind;
using collectives::ReduceOp;
using Axes = std::vector<std::string>;

Axes sorted(Axes axes) {
  std::ranges::sort(axes);
  return axes;
}

/// The axes along which devices differ, and not only the examples of a vmap.
Axes of_devices(Axes axes) {
  std::erase_if(axes, [](const std::string& axis) { return AxisEnv::current().is_mapped(axis); });
  return axes;
}

/// The axes of a value that varies over `varying` and over `axes`.
Axes with(const Axes& varying, const Axes& axes) { return both(varying, sorted(of_devices(axes))); }

/// The axes of a value that varies over `varying` but not over `axes`.
Axes without(const Axes& varying, const Axes& axes) { return minus(varying, sorted(axes)); }

/// Throws ShardingError unless the axes are in force and each is named once.
void check_axes(const Axes& axes) {
  for (const std::string& axis : axes) {
    AxisEnv::current().size(axis);
    if (std::ranges::count(axes, axis) != 1) {
      fail<ShardingError>("expected each mesh axis once, got ({})", fmt::join(axes, ", "));
    }
  }
}

/// Throws ShardingError unless each of the n positions is in exactly one group, and the groups have one size.
void check_groups(const Axes& axes, const IndexGroups& groups) {
  if (!groups) return;
  const std::int64_t n = AxisEnv::current().size(axes);
  std::vector<bool> seen(static_cast<std::size_t>(n));
  std::int64_t count = 0;
  for (const std::vector<int>& group : *groups) {
    if (group.empty() || group.size() != groups->front().size()) {
      fail<ShardingError>("expected axis_index_groups of one size, got {} and {}", groups->front().size(),
                          group.size());
    }
    for (int place : group) {
      if (place < 0 || place >= n || seen[static_cast<std::size_t>(place)]) {
        fail<ShardingError>("axis_index_groups has position {}, expected each of 0 to {} along ({}) once",
                            place, n - 1, fmt::join(axes, ", "));
      }
      seen[static_cast<std::size_t>(place)] = true;
      ++count;
    }
  }
  if (count != n) {
    fail<ShardingError>("axis_index_groups has {} places, expected each of the {} along ({}) once", count, n,
                        fmt::join(axes, ", "));
  }
}

void check_number(const Aval& x) {
  if (x.dtype == DType::kBool) {
    fail<DTypeError>("expected numbers, got {}; convert with astype", to_string(x));
  }
}

std::int64_t& size(Shape& shape, std::int64_t dimension) {
  return shape[static_cast<std::size_t>(dimension)];
}

void check_dimension(const Aval& x, std::int64_t dimension) {
  if (dimension < 0 || dimension >= x.rank()) {
    fail<ShapeError>("dimension {} is out of range for {}, which has {} dimensions, counted from 0",
                     dimension, to_string(x), x.rank());
  }
}

/// The shape with the dimension cut into axis_size parts.
Shape divided(const Aval& x, std::int64_t dimension, std::int64_t axis_size, const Axes& axes) {
  Shape shape = x.shape;
  std::int64_t& n = size(shape, dimension);
  if (n % axis_size != 0) {
    fail<ShapeError>("dimension {} of {} cannot be cut into {} equal parts, one for each device along ({})",
                     dimension, to_string(x), axis_size, fmt::join(axes, ", "));
  }
  n /= axis_size;
  return shape;
}

/// StableHLO that moves data about, with the shape it has on the way.
struct Tensor {
  Lowering& out;
  std::string name;
  DType dtype;
  Shape shape;

  std::string type() const { return mlir_type(dtype, shape); }

  Tensor reshaped(Shape to) const {
    if (to == shape) return *this;
    const std::string operands[] = {name}, types[] = {type()};
    return {out, out.op("stablehlo.reshape", operands, types, mlir_type(dtype, to)), dtype, to};
  }

  /// With dimension `from` taken out and put in as dimension `to`.
  Tensor moved(std::int64_t from, std::int64_t to) const {
    if (from == to) return *this;
    std::vector<std::int64_t> order;
    for (std::int64_t d = 0; d < static_cast<std::int64_t>(shape.size()); ++d) {
      if (d != from) order.push_back(d);
    }
    order.insert(order.begin() + to, from);
    Shape moved;
    for (std::int64_t d : order) moved.push_back(shape[static_cast<std::size_t>(d)]);
    const std::string operands[] = {name}, types[] = {type()};
    return {out,
            out.op("stablehlo.transpose", operands, types, mlir_type(dtype, moved),
                   "permutation = " + mlir_array(order)),
            dtype, moved};
  }

  /// With the dimension cut in n parts, which are counted by a new dimension in front.
  Tensor split(std::int64_t dimension, std::int64_t n) const {
    Shape parts = shape;
    size(parts, dimension) /= n;
    parts.insert(parts.begin() + dimension, n);
    return reshaped(parts).moved(dimension, 0);
  }

  /// With the leading dimension merged into dimension `dimension` of the rest: undoes split.
  Tensor merged(std::int64_t dimension) const {
    Shape result(shape.begin() + 1, shape.end());
    size(result, dimension) *= shape.front();
    return moved(0, dimension).reshaped(result);
  }
};

Tensor operand(Lowering& out, const Equation& e) {
  const Aval& x = out.operand_aval(e, 0);
  return {out, out.operand(e, 0), x.dtype, x.shape};
}

/// The groups of positions that do a collective.
std::vector<std::vector<int>> positions(const Lowering& out, const Axes& axes, const IndexGroups& groups) {
  std::vector<std::vector<int>> all = out.axes().groups(axes);
  if (!groups) return all;
  std::vector<std::vector<int>> parts;
  for (const std::vector<int>& whole : all) {
    for (const std::vector<int>& group : *groups) {
      std::vector<int>& part = parts.emplace_back();
      for (int place : group) part.push_back(whole[static_cast<std::size_t>(place)]);
    }
  }
  return parts;
}

/// The collective on x, with a result of this shape.
Tensor run(const Equation& e, const Tensor& x, const Axes& axes, const IndexGroups& groups, Kind kind,
           ReduceOp op, std::int64_t count, Shape result, std::vector<std::pair<int, int>> pairs = {}) {
  Lowering& out = x.out;
  const Aval& given = out.operand_aval(e, 0);
  Collective plan;
  plan.kind = kind;
  plan.op = op;
  plan.dtype = x.dtype;
  plan.count = count;
  plan.groups = positions(out, axes, groups);
  plan.pairs = std::move(pairs);
  plan.description = fmt::format("{} {} over {}", e.primitive->name,
                                 to_string(Aval{given.dtype, given.shape}), fmt::join(axes, ","));
  plan.site = e.site;
  std::string name = out.collective(std::move(plan), x.name, x.shape, result);
  return {out, std::move(name), x.dtype, std::move(result)};
}

/// The number of devices in a group. Throws ShardingError if the program was traced for another number.
std::int64_t devices(const Lowering& out, const Axes& axes, const IndexGroups& groups, std::int64_t traced) {
  std::int64_t n = groups ? static_cast<std::int64_t>(groups->front().size()) : out.axes().size(axes);
  if (n != traced) {
    fail<ShardingError>("a collective over ({}) was traced for {} devices and is lowered for {}",
                        fmt::join(axes, ", "), traced, n);
  }
  return n;
}

/// Sharding rules, for axes that are not those along which the devices' values are their own: those of the
/// collective itself, on which nothing is split. Each dimension keeps its splits, or each but those that the
/// collective cuts or puts together.
ShardingRule keep_all(std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams&) {
  return rules::keeping(inputs, outputs, [](std::size_t) { return true; });
}

ShardingRule keep_others(std::span<const Aval> inputs, std::span<const Aval> outputs,
                         const OpParams& params) {
  const auto dimension = static_cast<std::size_t>(params.as<GatherParams>().dimension);
  return rules::keeping(inputs, outputs, [dimension](std::size_t d) { return d != dimension; });
}

/// Batching of an operation whose parameters name no dimension.
std::function<std::vector<Value>(const BatchCall&)> batch_as_is(const Primitive& (*self)()) {
  return [self](const BatchCall& call) -> std::vector<Value> {
    return {lax::apply1<Value>(self(), call.params, {call.inputs[0]})};
  };
}

template <class Params>
std::function<Exchange(const OpParams&)> moves(std::string_view kind) {
  return [kind](const OpParams& params) -> Exchange {
    const auto& p = params.as<Params>();
    if constexpr (requires { p.groups; }) return {kind, p.axes, p.groups.has_value()};
    return {kind, p.axes};
  };
}

/// psum, pmax and pmin.
Primitive all_reduce(std::string name, ReduceOp op, const Primitive& (*self)(), JvpRule jvp,
                     std::function<Tangents(const TransposeCall&)> transpose) {
  return {
      .name = std::move(name),
      .shape = [op](std::span<const Aval> inputs, const OpParams& params) -> std::vector<Aval> {
        const auto& [axes, groups] = params.as<AxesParams>();
        check_axes(axes);
        check_groups(axes, groups);
        check_number(inputs[0]);
        if (op != ReduceOp::kSum && info(inputs[0].dtype).kind == DTypeKind::kComplex) {
          fail<DTypeError>("expected real numbers, got {}", to_string(inputs[0]));
        }
        Aval result = inputs[0];
        // Groups differ from each other.
        result.varying = groups ? with(result.varying, axes) : without(result.varying, axes);
        return {result};
      },
      .sharding = keep_all,
      .jvp = std::move(jvp),
      .transpose = std::move(transpose),
      .batching = batch_as_is(self),
      .flops = flops_of_results,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = moves<AxesParams>("all-reduce"),
      .lower = [op](Lowering& out, const Equation& e) -> std::vector<std::string> {
        const auto& [axes, groups] = e.params.as<AxesParams>();
        if (groups ? groups->front().size() == 1 : out.axes().size(axes) == 1) return {out.operand(e, 0)};
        Tensor x = operand(out, e);
        return {run(e, x, axes, groups, Kind::kAllReduce, op, num_elements(x.shape), x.shape).name};
      },
      .sets_varying = true,
  };
}

Tangents no_derivative(const std::string& name, const JvpCall& call) {
  if (!call.tangents[0]) return {std::nullopt};
  fail<TraceError>(
      "[{}] has no derivative (at {}); put stop_gradient around its operand, or take the derivative of the "
      "reduction of an all_gather instead",
      name, CallSiteScope::current().to_string());
}

Tangents pmax_jvp(const JvpCall& call) { return no_derivative("pmax", call); }
Tangents pmin_jvp(const JvpCall& call) { return no_derivative("pmin", call); }

}  // namespace

const Primitive& psum_p() {
  static const Primitive p = all_reduce(
      "psum", ReduceOp::kSum, psum_p, rules::linear_jvp(psum_p), [](const TransposeCall& c) -> Tangents {
        const auto& [axes, groups] = c.params.as<AxesParams>();
        // Along an axis that is not counted as varying, as among groups, a sum is its own transpose.
        const Axes counted = of_devices(axes);
        if (groups || counted.empty()) return {lax::psum(*c.cotangents[0], axes, groups)};
        Value ct = lax::pvary(*c.cotangents[0], counted);
        if (counted.size() == axes.size()) return {ct};
        Axes mapped = axes;
        std::erase_if(mapped,
                      [&](const std::string& axis) { return std::ranges::count(counted, axis) != 0; });
        return {lax::psum(ct, mapped)};
      });
  return p;
}

const Primitive& pmax_p() {
  static const Primitive p = all_reduce("pmax", ReduceOp::kMax, pmax_p, pmax_jvp, not_linear);
  return p;
}

const Primitive& pmin_p() {
  static const Primitive p = all_reduce("pmin", ReduceOp::kMin, pmin_p, pmin_jvp, not_linear);
  return p;
}

const Primitive& pvary_p() {
  static const Primitive p = {
      .name = "pvary",
      .shape = [](std::span<const Aval> inputs, const OpParams& params) -> std::vector<Aval> {
        const Axes& axes = params.as<AxesParams>().axes;
        check_axes(axes);
        Aval result = inputs[0];
        result.varying = with(result.varying, axes);
        return {result};
      },
      .sharding = keep_all,
      .jvp = rules::linear_jvp(pvary_p),
      .transpose = [](const TransposeCall& c) -> Tangents {
        // Over axes along which the operand already varied, nothing was done. Over the other device axes the
        // cotangent varies, and its user sums it.
        Axes axes = c.params.as<AxesParams>().axes;
        std::erase_if(axes, [](const std::string& axis) { return !AxisEnv::current().is_mapped(axis); });
        if (axes.empty()) return {c.cotangents[0]};
        return {lax::psum(*c.cotangents[0], axes)};
      },
      .batching = batch_as_is(pvary_p),
      .flops = no_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = moves<AxesParams>(""),
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        return {out.operand(e, 0)};
      },
      .sets_varying = true,
  };
  return p;
}

const Primitive& all_gather_p() {
  static const Primitive p = {
      .name = "all_gather",
      .shape = [](std::span<const Aval> inputs, const OpParams& params) -> std::vector<Aval> {
        const auto& p = params.as<GatherParams>();
        check_axes(p.axes);
        check_groups(p.axes, p.groups);
        check_dimension(inputs[0], p.dimension);
        Aval result = inputs[0];
        size(result.shape, p.dimension) *= p.axis_size;
        result.varying = with(result.varying, p.axes);
        return {result};
      },
      .sharding = keep_others,
      .jvp = rules::linear_jvp(all_gather_p),
      .transpose = [](const TransposeCall& c) -> Tangents {
        return {lax::apply1<Value>(psum_scatter_p(), c.params, {*c.cotangents[0]})};
      },
      .batching = [](const BatchCall& call) -> std::vector<Value> {
        GatherParams p = call.params.as<GatherParams>();
        ++p.dimension;
        return {lax::apply1<Value>(all_gather_p(), OpParams::of(p), {call.inputs[0]})};
      },
      .flops = no_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = moves<GatherParams>("all-gather"),
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        const auto& p = e.params.as<GatherParams>();
        const std::int64_t n = devices(out, p.axes, p.groups, p.axis_size);
        if (n == 1) return {out.operand(e, 0)};
        Tensor x = operand(out, e);
        if (p.again.value_or(false)) x.name = out.barrier({x.name}, {x.type()}).front();
        const std::int64_t count = num_elements(x.shape);
        // Along the first dimension the parts are already in order.
        Shape gathered = p.dimension == 0 ? out.result_aval(e).shape : rules::prepended(n, x.shape);
        Tensor all = run(e, x, p.axes, p.groups, Kind::kAllGather, ReduceOp::kSum, count, gathered);
        return {p.dimension == 0 ? all.name : all.merged(p.dimension).name};
      },
      .sets_varying = true,
  };
  return p;
}

const Primitive& psum_scatter_p() {
  static const Primitive p = {
      .name = "psum_scatter",
      .shape = [](std::span<const Aval> inputs, const OpParams& params) -> std::vector<Aval> {
        const auto& p = params.as<GatherParams>();
        check_axes(p.axes);
        check_groups(p.axes, p.groups);
        check_number(inputs[0]);
        check_dimension(inputs[0], p.dimension);
        Aval result = inputs[0];
        result.shape = divided(inputs[0], p.dimension, p.axis_size, p.axes);
        result.varying = with(result.varying, p.axes);
        return {result};
      },
      .sharding = keep_others,
      .jvp = rules::linear_jvp(psum_scatter_p),
      .transpose = [](const TransposeCall& c) -> Tangents {
        return {lax::apply1<Value>(all_gather_p(), c.params, {*c.cotangents[0]})};
      },
      .batching = [](const BatchCall& call) -> std::vector<Value> {
        GatherParams p = call.params.as<GatherParams>();
        ++p.dimension;
        return {lax::apply1<Value>(psum_scatter_p(), OpParams::of(p), {call.inputs[0]})};
      },
      .flops = flops_of_operand,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = moves<GatherParams>("reduce-scatter"),
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        const auto& p = e.params.as<GatherParams>();
        const std::int64_t n = devices(out, p.axes, p.groups, p.axis_size);
        if (n == 1) return {out.operand(e, 0)};
        const Tensor given = operand(out, e);
        const Tensor x = p.dimension == 0 ? given : given.split(p.dimension, n);
        const Shape& result = out.result_aval(e).shape;
        return {
            run(e, x, p.axes, p.groups, Kind::kReduceScatter, ReduceOp::kSum, num_elements(result), result)
                .name};
      },
      .sets_varying = true,
  };
  return p;
}

const Primitive& all_to_all_p() {
  static const Primitive p = {
      .name = "all_to_all",
      .shape = [](std::span<const Aval> inputs, const OpParams& params) -> std::vector<Aval> {
        const auto& p = params.as<AllToAllParams>();
        check_axes(p.axes);
        check_groups(p.axes, p.groups);
        check_dimension(inputs[0], p.split_dimension);
        check_dimension(inputs[0], p.concat_dimension);
        Aval result = inputs[0];
        result.shape = divided(inputs[0], p.split_dimension, p.axis_size, p.axes);
        size(result.shape, p.concat_dimension) *= p.axis_size;
        result.varying = with(result.varying, p.axes);
        return {result};
      },
      .sharding =
          [](std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params) {
            const auto& p = params.as<AllToAllParams>();
            return rules::keeping(inputs, outputs, [&p](std::size_t d) {
              const auto dimension = static_cast<std::int64_t>(d);
              return dimension != p.split_dimension && dimension != p.concat_dimension;
            });
          },
      .jvp = rules::linear_jvp(all_to_all_p),
      .transpose = [](const TransposeCall& c) -> Tangents {
        AllToAllParams p = c.params.as<AllToAllParams>();
        std::swap(p.split_dimension, p.concat_dimension);
        return {lax::apply1<Value>(all_to_all_p(), OpParams::of(p), {*c.cotangents[0]})};
      },
      .batching = [](const BatchCall& call) -> std::vector<Value> {
        AllToAllParams p = call.params.as<AllToAllParams>();
        ++p.split_dimension;
        ++p.concat_dimension;
        return {lax::apply1<Value>(all_to_all_p(), OpParams::of(p), {call.inputs[0]})};
      },
      .flops = no_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = moves<AllToAllParams>("all-to-all"),
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        const auto& p = e.params.as<AllToAllParams>();
        const std::int64_t n = devices(out, p.axes, p.groups, p.axis_size);
        if (n == 1) return {out.operand(e, 0)};
        Tensor parts = operand(out, e).split(p.split_dimension, n);
        Tensor swapped = run(e, parts, p.axes, p.groups, Kind::kAllToAll, ReduceOp::kSum,
                             num_elements(parts.shape) / n, parts.shape);
        return {swapped.merged(p.concat_dimension).name};
      },
      .sets_varying = true,
  };
  return p;
}

const Primitive& ppermute_p() {
  static const Primitive p = {
      .name = "ppermute",
      .shape = [](std::span<const Aval> inputs, const OpParams& params) -> std::vector<Aval> {
        const auto& p = params.as<PermuteParams>();
        check_axes(p.axes);
        for (std::size_t i = 0; i < p.pairs.size(); ++i) {
          const auto& [source, target] = p.pairs[i];
          if (source < 0 || source >= p.axis_size || target < 0 || target >= p.axis_size) {
            fail<ShardingError>("pair {}->{} is not among the {} devices along ({})", source, target,
                                p.axis_size, fmt::join(p.axes, ", "));
          }
          for (std::size_t j = 0; j < i; ++j) {
            if (p.pairs[j].first == source || p.pairs[j].second == target) {
              fail<ShardingError>("expected each source and each target once, got {}->{} and {}->{}",
                                  p.pairs[j].first, p.pairs[j].second, source, target);
            }
          }
        }
        Aval result = inputs[0];
        result.varying = with(result.varying, p.axes);
        return {result};
      },
      .sharding = keep_all,
      .jvp = rules::linear_jvp(ppermute_p),
      .transpose = [](const TransposeCall& c) -> Tangents {
        PermuteParams p = c.params.as<PermuteParams>();
        for (auto& [source, target] : p.pairs) std::swap(source, target);
        return {lax::apply1<Value>(ppermute_p(), OpParams::of(std::move(p)), {*c.cotangents[0]})};
      },
      .batching = batch_as_is(ppermute_p),
      .flops = no_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = moves<PermuteParams>("permute"),
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        const auto& p = e.params.as<PermuteParams>();
        const std::int64_t n = devices(out, p.axes, {}, p.axis_size);
        Tensor x = operand(out, e);
        if (p.pairs.empty()) return {out.splat(Scalar::of(0), x.dtype, x.shape)};
        if (n == 1) return {x.name};
        return {run(e, x, p.axes, {}, Kind::kPermute, ReduceOp::kSum, num_elements(x.shape), x.shape, p.pairs)
                    .name};
      },
      .sets_varying = true,
  };
  return p;
}

const Primitive& axis_index_p() {
  static const Primitive p = {
      .name = "axis_index",
      .shape = [](std::span<const Aval>, const OpParams& params) -> std::vector<Aval> {
        const Axes& axes = params.as<AxesParams>().axes;
        check_axes(axes);
        return {Aval{DType::kI32, {}, false, with({}, axes)}};
      },
      .sharding = [](std::span<const Aval> inputs, std::span<const Aval> outputs,
                     const OpParams&) { return ShardingRule::replicated(inputs, outputs); },
      .jvp = zero_tangents,
      .transpose = not_linear,
      .batching = [](const BatchCall& call) -> std::vector<Value> {
        // Without operands nothing is batched; it is here for callers that ask all the same.
        Value index = call.builder.emit(axis_index_p(), call.params, {}).front();
        return {rules::broadcast_leading(index, call.size)};
      },
      .flops = no_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = moves<AxesParams>(""),
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        const std::string type = out.result_type(e);
        auto op = [&](std::string_view name, const std::string& x, std::int64_t by) {
          const std::string operands[] = {x, out.splat(Scalar::of(by), DType::kI32, {})},
                            types[] = {type, type};
          return out.op(name, operands, types, type);
        };
        std::string index = out.splat(Scalar::of(0), DType::kI32, {});
        for (const std::string& axis : e.params.as<AxesParams>().axes) {
          const std::int64_t n = out.axes().size(axis), stride = out.axes().stride(axis);
          if (n == 1) continue;
          std::string place = op("stablehlo.divide", out.position(), stride);
          place = op("stablehlo.remainder", place, n);
          const std::string operands[] = {op("stablehlo.multiply", index, n), place}, types[] = {type, type};
          index = out.op("stablehlo.add", operands, types, type);
        }
        return {index};
      },
      .sets_varying = true,
  };
  return p;
}

const Primitive& collective_done_p() {
  static const Primitive p = {
      .name = "collective_done",
      .shape = [](std::span<const Aval> inputs, const OpParams&) -> std::vector<Aval> { return {inputs[0]}; },
      .sharding = keep_all,
      .jvp = [](const JvpCall& c) -> Tangents { return {c.tangents[0]}; },
      .transpose = [](const TransposeCall& c) -> Tangents {
        Tangents tangents(c.operands.size());
        tangents[0] = *c.cotangents[0];
        return tangents;
      },
      .batching = [](const BatchCall& call) { return rules::batch_elementwise(collective_done_p(), call); },
      .flops = no_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        return {out.collective_done(e)};
      },
  };
  return p;
}

namespace lax {

std::int64_t group_size(const AxisNames& axes, const IndexGroups& groups) {
  return groups && !groups->empty() ? static_cast<std::int64_t>(groups->front().size()) : axis_size(axes);
}

}  // namespace lax
}  // namespace lockstep::ir
