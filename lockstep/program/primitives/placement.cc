// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/placement.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/rules.h"

namespace lockstep::ir {
namespace {

using Axes = std::vector<std::string>;

std::int64_t size_of_axis(const PlacementParams& placement, const std::string& axis) {
  auto found = std::ranges::find(placement.axes, axis);
  if (found == placement.axes.end()) {
    fail<ShardingError>("'{}' is not one of the mesh axes ({})", axis, fmt::join(placement.axes, ", "));
  }
  return placement.sizes[static_cast<std::size_t>(found - placement.axes.begin())];
}

/// All axes of the spec, sorted. Throws ShardingError if one appears twice.
Axes axes_of(const PlacementParams& placement) {
  Axes all;
  for (const Axes& axes : placement.spec) all.insert(all.end(), axes.begin(), axes.end());
  std::ranges::sort(all);
  if (auto twice = std::ranges::adjacent_find(all); twice != all.end()) {
    fail<ShardingError>("expected each mesh axis once in a spec, got '{}' twice", *twice);
  }
  return all;
}

/// For each dimension of x, into how many parts it is cut.
std::vector<std::int64_t> cuts(const PlacementParams& placement, const Aval& x) {
  axes_of(placement);
  if (placement.spec.size() > x.shape.size()) {
    fail<ShardingError>("a spec of {} entries does not fit {}, which has {} dimensions",
                        placement.spec.size(), to_string(x), x.rank());
  }
  std::vector<std::int64_t> cuts(x.shape.size(), 1);
  for (std::size_t d = 0; d < placement.spec.size(); ++d) {
    for (const std::string& axis : placement.spec[d]) cuts[d] *= size_of_axis(placement, axis);
  }
  return cuts;
}

void check_divisible(const PlacementParams& placement, const Aval& x) {
  const std::vector<std::int64_t> parts = cuts(placement, x);
  for (std::size_t d = 0; d < parts.size(); ++d) {
    if (x.shape[d] % parts[d] == 0) continue;
    fail<ShardingError>(
        "dimension {} of {} is split over ({}), which are {} devices, but {} leaves a remainder of {}; the "
        "nearest sizes that fit are {} and {}",
        d, to_string(x), fmt::join(placement.spec[d], ", "), parts[d], x.shape[d], x.shape[d] % parts[d],
        x.shape[d] / parts[d] * parts[d], (x.shape[d] / parts[d] + 1) * parts[d]);
  }
}

std::vector<Aval> local_shape(std::span<const Aval> inputs, const OpParams& params) {
  const auto& placement = params.as<PlacementParams>();
  check_divisible(placement, inputs[0]);
  Aval local = inputs[0];
  const std::vector<std::int64_t> parts = cuts(placement, local);
  for (std::size_t d = 0; d < parts.size(); ++d) local.shape[d] /= parts[d];
  const Axes axes = axes_of(placement);
  Axes twice, both;
  std::ranges::set_intersection(inputs[0].varying, axes, std::back_inserter(twice));
  if (!twice.empty()) {
    fail<ShardingError>("{} is already one device's part along '{}', and cannot be split over it again",
                        to_string(inputs[0]), twice.front());
  }
  std::ranges::set_union(inputs[0].varying, axes, std::back_inserter(both));
  local.varying = both;
  return {local};
}

std::vector<Aval> global_shape(std::span<const Aval> inputs, const OpParams& params) {
  const auto& placement = params.as<PlacementParams>();
  const std::vector<std::int64_t> parts = cuts(placement, inputs[0]);
  Aval global = inputs[0];
  for (std::size_t d = 0; d < parts.size(); ++d) global.shape[d] *= parts[d];
  const Axes axes = axes_of(placement);
  global.varying.clear();
  for (const std::string& axis : inputs[0].varying) {
    if (std::ranges::binary_search(axes, axis)) continue;
    if (std::ranges::find(placement.manual, axis) == placement.manual.end()) {
      global.varying.push_back(axis);
      continue;
    }
    fail<ShardingError>(
        "{} differs between the devices along '{}', which its out_spec does not name; name the axis, or make "
        "the value the same on all devices with psum, pmean or another reduction over '{}'",
        to_string(inputs[0]), axis, axis);
  }
  return {global};
}

ShardingRule whole(std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams&) {
  return ShardingRule::replicated(inputs, outputs);
}

/// In the order of the mapped axis.
Axes axes_of_examples(const Primitive& self, const PlacementParams& placement, const MappedAxis& axis) {
  Axes axes = axis.spmd_axes;
  std::erase_if(axes, [&](const std::string& each) {
    const bool is_split = std::ranges::binary_search(axis.varying, each);
    const bool manual = std::ranges::find(placement.manual, each) != placement.manual.end();
    if (&self == &to_global_p()) return !is_split || !manual;
    return is_split || (!manual && &self != &sharding_constraint_p());
  });
  return axes;
}

/// The mapped dimension is split as vmap was told; otherwise it is left open.
std::function<std::vector<Value>(const BatchCall&)> batch_with(const Primitive& (*self)()) {
  return [self](const BatchCall& call) -> std::vector<Value> {
    PlacementParams placement = call.params.as<PlacementParams>();
    const Axes split = axes_of_examples(self(), placement, call.axis), used = axes_of(placement);
    for (const std::string& axis : split) {
      if (!std::ranges::binary_search(used, axis)) continue;
      fail<ShardingError>(
          "[vmap] spmd_axis_name splits the examples over '{}', but the function under it splits an example "
          "over '{}', too (at {}); name another axis",
          axis, axis, CallSiteScope::current().to_string());
    }
    placement.spec.insert(placement.spec.begin(), split);
    std::vector<std::int64_t> open = placement.unconstrained.value_or(std::vector<std::int64_t>());
    for (std::int64_t& dimension : open) ++dimension;
    if (split.empty()) open.insert(open.begin(), 0);
    placement.unconstrained = open.empty() ? std::nullopt : std::optional(std::move(open));
    return {lax::apply1<Value>(self(), OpParams::of(std::move(placement)), {call.inputs[0]})};
  };
}

/// On one device the whole is its part. The partitioner leaves none of these operations to others.
std::vector<std::string> lower_on_one_device(Lowering& out, const Equation& e) {
  if (out.axes().num_positions() > 1) {
    fail_internally("[{}] was not partitioned (at {})", e.primitive->name, e.site.to_string());
  }
  return {out.operand(e, 0)};
}

/// to_local or to_global, `self`, of which each is the other's transpose.
Primitive change_of_view(std::string name, std::vector<Aval> (*shape)(std::span<const Aval>, const OpParams&),
                         const Primitive& (*self)(), const Primitive& (*other)()) {
  return {
      .name = std::move(name),
      .shape = shape,
      .sharding = whole,
      .jvp = rules::linear_jvp(self),
      .transpose = [other](const TransposeCall& c) -> Tangents {
        return {lax::apply1<Value>(other(), c.params, {*c.cotangents[0]})};
      },
      .batching = batch_with(self),
      .flops = no_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = lower_on_one_device,
      .sets_varying = true,
  };
}

}  // namespace

const Primitive& to_local_p() {
  static const Primitive p = change_of_view("to_local", local_shape, to_local_p, to_global_p);
  return p;
}

const Primitive& to_global_p() {
  static const Primitive p = change_of_view("to_global", global_shape, to_global_p, to_local_p);
  return p;
}

const Primitive& sharding_constraint_p() {
  static const Primitive p = {
      .name = "sharding_constraint",
      .shape = [](std::span<const Aval> inputs, const OpParams& params) -> std::vector<Aval> {
        cuts(params.as<PlacementParams>(), inputs[0]);
        return {inputs[0]};
      },
      .sharding = whole,
      .jvp = rules::linear_jvp(sharding_constraint_p),
      .transpose = [](const TransposeCall& c) -> Tangents {
        return {lax::apply1<Value>(sharding_constraint_p(), c.params, {*c.cotangents[0]})};
      },
      .batching = batch_with(sharding_constraint_p),
      .flops = no_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = lower_on_one_device,
  };
  return p;
}

bool PlacementParams::is_unconstrained(std::size_t dimension) const {
  return unconstrained && std::ranges::binary_search(*unconstrained, static_cast<std::int64_t>(dimension));
}

std::vector<std::string> examples_axes(const Equation& placement, const MappedAxis& axis) {
  Axes axes = axes_of_examples(*placement.primitive, placement.params.as<PlacementParams>(), axis);
  std::ranges::sort(axes);
  return axes;
}

bool is_placement(const Primitive& primitive) {
  return &primitive == &to_local_p() || &primitive == &to_global_p() ||
         &primitive == &sharding_constraint_p();
}

}  // namespace lockstep::ir
