#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/program/aval.h"
#include "lockstep/program/axis_env.h"
#include "lockstep/program/program.h"
#include "lockstep/program/sharding_rule.h"
#include "lockstep/sharding/partition_spec.h"

/// What the partitioner's parts share: a PartitionSpec in a form that is quick to work on.
namespace lockstep::sharding {

/// Axes of a Grid, by number, major to minor.
using Axes = std::vector<int>;

/// For each dimension, the axes that split it. As many entries as dimensions.
using Split = std::vector<Axes>;

/// What is still to be done to a value: each element is what the devices along the axes have there, put
/// together.
struct Partial {
  using Combine = ShardingRule::Combine;
  Combine combine = Combine::kNone;
  Axes axes = {};  ///< rising; none exactly where combine is kNone

  bool operator==(const Partial&) const = default;
  explicit operator bool() const { return !axes.empty(); }
};

/// How a value is on the devices.
struct Layout {
  Split split;
  Partial partial = {};

  bool operator==(const Layout&) const = default;
};

/// The axes of a mesh along which there is more than one device. An axis of a size that is no prime has parts
/// of prime sizes, which are axes as well, numbered behind the mesh's: a layout names either the axis or some
/// of its parts.
class Grid {
 public:
  explicit Grid(AxisEnv env);

  const AxisEnv& env() const { return env_; }

  /// Number of devices along the axes.
  std::int64_t size(const Axes& axes) const;

  std::vector<std::string> names(const Axes& axes) const;

  /// Axes of one device and unknown ones are left out.
  Axes axes(const std::vector<std::string>& names) const;

  /// Axes of one device are left out. An unknown axis is left out, too: check specs first.
  Split split(const PartitionSpec& spec, std::size_t rank) const;

  /// Normalized.
  PartitionSpec spec(const Split& split) const;

  /// The shape of one device's part.
  Shape local_shape(const Shape& global, const Split& split) const;

  /// The bytes of one device's part.
  std::int64_t local_bytes(const Aval& global, const Split& split) const;

  /// The names of all axes along which devices have something else, sorted.
  std::vector<std::string> varying(const Layout& layout) const;

  /// The same axes by their parts, and by as few as there can be.
  Axes in_parts(const Axes& axes) const;
  Axes of_parts(const Axes& axes) const;
  Split in_parts(const Split& split) const;
  Split of_parts(const Split& split) const;

  bool has_parts() const { return num_axes_ < static_cast<int>(names_.size()); }
  bool names_parts(const Split& split) const;

 private:
  AxisEnv env_;
  int num_axes_ = 0;
  std::vector<Axes> parts_;  // of each of the mesh's axes; none of one of a prime size
  std::vector<std::string> names_;
  std::vector<std::int64_t> sizes_;
};

bool is_prefix(const Axes& prefix, const Axes& axes);
bool contains(const Axes& axes, int axis);
bool is_whole(const Split& split);

/// Whether they have no axis in common.
bool disjoint(const Axes& a, const Axes& b);
bool disjoint(const Split& split, const Axes& axes);

/// The split that a placement of a value of this shape names: of its operand, its result, or both. Of a
/// sharding_constraint without axes that do not divide the shape; no axes in a dimension of which it says
/// nothing.
Split placed_split(const Equation& placement, const Grid& grid, const Shape& shape);

/// Of dimensions that lie so globally, what splits each device's part under the placement: the axes behind
/// those of the placement. None of a dimension that does not begin with those.
Split behind(const Split& global, const Split& placed);

/// The reverse: the placement's axes, and behind them those of the part.
Split in_front(const Split& placed, const Split& part);

/// The axes without the first `count`.
Axes suffix(const Axes& axes, std::size_t count);

}  // namespace lockstep::sharding
