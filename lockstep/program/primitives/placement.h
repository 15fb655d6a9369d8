// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/program/primitives/apply.h"

namespace lockstep::ir {

/// Operations that determine the sharding of a global array over a mesh. The partitioner implements them by
/// resharding the array; the program of one device does not contain them.

/// This device's part of a global array, as a value of its own: shard_map passes it to the function. It
/// varies over the axes of the spec.
const Primitive& to_local_p();

/// The global array of which each device has a part: shard_map makes it from the function's results. The part
/// must not vary over manual axes other than those of the spec.
const Primitive& to_global_p();

/// The array itself, with the sharding of the spec. If the axes do not divide a dimension, it is padded after
/// its last element; the padding is not visible to other operations.
const Primitive& sharding_constraint_p();

/// A mesh, as axes with their sizes and the devices' ids in row-major order, and a spec: for each dimension
/// the axes that split it, with or without empty entries at the end.
struct PlacementParams {
  static constexpr std::array<std::string_view, 6> kFields = {"spec",    "axes",   "sizes",
                                                              "devices", "manual", "unconstrained"};
  std::vector<std::vector<std::string>> spec;
  std::vector<std::string> axes;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> devices;

  /// The axes along which the function under shard_map sees single devices. Ignored by sharding_constraint.
  std::vector<std::string> manual;

  /// The unconstrained dimensions, ascending: those of a user's P::UNCONSTRAINED, and those that vmap added.
  /// Their entries have no axes.
  std::optional<std::vector<std::int64_t>> unconstrained = std::nullopt;

  bool is_unconstrained(std::size_t dimension) const;
};

/// The axes over which the placement's batching splits the examples, sorted: for sharding_constraint those of
/// the mapped axis that do not split them yet; for to_local the manual ones among these; for to_global the
/// same axes as for to_local.
std::vector<std::string> examples_axes(const Equation& placement, const MappedAxis& axis);

/// Whether it is one of these three primitives.
bool is_placement(const Primitive& primitive);

namespace lax {

template <Operand V>
V to_local(const V& x, PlacementParams placement) {
  return apply1<V>(to_local_p(), OpParams::of(std::move(placement)), {x});
}
template <Operand V>
V to_global(const V& x, PlacementParams placement) {
  return apply1<V>(to_global_p(), OpParams::of(std::move(placement)), {x});
}
template <Operand V>
V sharding_constraint(const V& x, PlacementParams placement) {
  return apply1<V>(sharding_constraint_p(), OpParams::of(std::move(placement)), {x});
}

}  // namespace lax
}  // namespace lockstep::ir
