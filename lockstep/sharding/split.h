// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/program/aval.h"
#include "lockstep/program/axis_env.h"
#include "lockstep/program/program.h"
#include "lockstep/program/sharding_rule.h"
#include "lockstep/sharding/partition_spec.h"

/// Common types of the partitioner: a PartitionSpec in an efficient form.
namespace lockstep::sharding {

/// Axes of a Grid, by number, from major to minor.
using Axes = std::vector<int>;

/// For each dimension of a value, the axes that split it.
using Split = std::vector<Axes>;

/// A pending reduction: each element of the value is the combination of what the devices along the axes have.
struct Partial {
  using Combine = ir::ShardingRule::Combine;
  Combine combine = Combine::kNone;
  Axes axes = {};  ///< ascending; empty if and only if combine is kNone

  bool operator==(const Partial&) const = default;
  explicit operator bool() const { return !axes.empty(); }
};

/// The distribution of a value over the devices.
struct Layout {
  Split split;
  Partial partial = {};

  bool operator==(const Layout&) const = default;
};

/// The axes of a mesh that have more than one device. An axis whose size is not a prime also has parts of
/// prime sizes, which are numbered after the mesh's axes. A layout uses either the axis or some of its parts.
class Grid {
 public:
  explicit Grid(ir::AxisEnv env);

  const ir::AxisEnv& env() const { return env_; }

  /// The number of devices along the axes.
  std::int64_t size(const Axes& axes) const;

  std::vector<std::string> names(const Axes& axes) const;

  /// Axes with one device and unknown axes are left out.
  Axes axes(const std::vector<std::string>& names) const;

  /// Axes with one device and unknown axes are left out; check specs first.
  Split split(const PartitionSpec& spec, std::size_t rank) const;

  /// Normalized.
  PartitionSpec spec(const Split& split) const;

  /// The shape of one device's part.
  Shape local_shape(const Shape& global, const Split& split) const;

  /// The bytes of one device's part.
  std::int64_t local_bytes(const Aval& global, const Split& split) const;

  /// The names of all axes along which devices hold different data, sorted.
  std::vector<std::string> varying(const Layout& layout) const;

  /// in_parts replaces axes by their parts; of_parts replaces parts by whole axes where possible.
  Axes in_parts(const Axes& axes) const;
  Axes of_parts(const Axes& axes) const;
  Split in_parts(const Split& split) const;
  Split of_parts(const Split& split) const;

  bool has_parts() const { return num_axes_ < static_cast<int>(names_.size()); }
  bool names_parts(const Split& split) const;

 private:
  ir::AxisEnv env_;
  int num_axes_ = 0;
  std::vector<Axes> parts_;  // for each mesh axis its parts; none if its size is a prime
  std::vector<std::string> names_;
  std::vector<std::int64_t> sizes_;
};

bool is_prefix(const Axes& prefix, const Axes& axes);
bool contains(const Axes& axes, int axis);
bool is_whole(const Split& split);

/// Whether they have no axis in common.
bool disjoint(const Axes& a, const Axes& b);
bool disjoint(const Split& split, const Axes& axes);

/// The split that a placement specifies for its operand, its result, or both, if the value has this shape.
/// For a sharding_constraint, axes that do not divide the shape are left out, and unconstrained dimensions
/// have no axes.
Split placed_split(const ir::Equation& placement, const Grid& grid, const Shape& shape);

/// Given the global split of dimensions, the axes that split each device's part under the placement: those
/// after the placement's axes. Empty for a dimension whose split does not begin with the placement's axes.
Split behind(const Split& global, const Split& placed);

/// The inverse: the placement's axes, followed by those of the part.
Split in_front(const Split& placed, const Split& part);

/// The axes without the first `count`.
Axes suffix(const Axes& axes, std::size_t count);

}  // namespace lockstep::sharding
