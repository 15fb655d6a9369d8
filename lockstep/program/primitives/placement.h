#pragma once

#include <optional>

#include "lockstep/program/primitives/apply.h"

namespace lockstep {

/// Operations that say how a global array lies over a mesh. The partitioner does them by bringing the array
/// there; in the program of one device nothing is left of them.

/// This device's part of a global array, which from then on is a value of its own: what shard_map hands to
/// the function. It varies over the axes of the spec.
const Primitive& to_local_p();

/// The global array of which each device has a part: what shard_map makes of the function's results. The part
/// varies over no manual axis but those of the spec.
const Primitive& to_global_p();

/// The array itself, which shall lie as the spec says. Where the axes do not divide a dimension, it lies so
/// with padding behind its last element, which nothing else sees.
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

  /// The axes along which the function under shard_map sees single devices. Not looked at by
  /// sharding_constraint.
  std::vector<std::string> manual;

  /// The dimensions that the placement leaves as they are, in rising order: those that a user's constraint
  /// calls P::UNCONSTRAINED, and those that vmap added. Their entries have no axes.
  std::optional<std::vector<std::int64_t>> unconstrained = std::nullopt;

  bool is_unconstrained(std::size_t dimension) const;
};

/// The axes over which the placement's batching splits the examples: those of the mapped axis that do not
/// split them yet, of to_local those of them that are manual, and of to_global the same that to_local split.
/// Sorted.
std::vector<std::string> examples_axes(const Equation& placement, const MappedAxis& axis);

/// Whether it is one of the three.
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
}  // namespace lockstep
