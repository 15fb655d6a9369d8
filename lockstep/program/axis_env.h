// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::ir {

/// The mesh axes that collectives may name, from major to minor, with their sizes. A device's position is its
/// index in the mesh in row-major order.
///
/// A part of an axis is named as in Shardy. For an axis `x` of 8 = 2 x 2 x 2, `x:(1)2` is the first part,
/// `x:(2)2` the one after the first 2, and `x:(4)2` the last.
class AxisEnv {
 public:
  AxisEnv() = default;
  explicit AxisEnv(std::vector<std::pair<std::string, std::int64_t>> axes);

  const std::vector<std::pair<std::string, std::int64_t>>& axes() const { return axes_; }
  bool has(const std::string& axis) const;

  /// The name of the part of an axis that has size `size` and comes after parts whose sizes have the product
  /// `before`.
  static std::string part_name(const std::string& axis, std::int64_t before, std::int64_t size);

  /// The number of devices along one axis. Throws ShardingError, with the axes in force, for an unknown name.
  std::int64_t size(const std::string& axis) const;

  /// The number of devices along several axes: the product of their sizes.
  std::int64_t size(std::span<const std::string> axes) const;

  /// The number of positions.
  std::int64_t num_positions() const;

  /// The distance between neighbouring positions along the axis.
  std::int64_t stride(const std::string& axis) const;

  /// The groups of positions that differ only along `axes`, each in row-major order of `axes` as given.
  std::vector<std::vector<int>> groups(std::span<const std::string> axes) const;

  /// With one more axis, the innermost, over whose examples vmap maps. It is not an axis of devices, so
  /// values that differ along it are not varying. It hides another axis with the same name.
  AxisEnv with_mapped(const std::string& axis, std::int64_t size) const;
  bool is_mapped(const std::string& axis) const;

  /// Only the axes of devices, without those that a mapped axis hides.
  AxisEnv without_mapped() const;

  /// The axes that shard_map, pmap and vmap with an axis name set for the function that they trace, on this
  /// thread; empty outside of them.
  static const AxisEnv& current();

 private:
  friend class AxisEnvScope;
  struct Extent {
    std::int64_t size, stride;
  };
  Extent extent(const std::string& axis) const;

  std::vector<std::pair<std::string, std::int64_t>> axes_;
  std::vector<std::string> mapped_;
};

/// Sets `AxisEnv::current()` for its lifetime.
class AxisEnvScope {
 public:
  explicit AxisEnvScope(AxisEnv env);
  ~AxisEnvScope();
  AxisEnvScope(const AxisEnvScope&) = delete;
  AxisEnvScope& operator=(const AxisEnvScope&) = delete;

 private:
  AxisEnv saved_;
};

}  // namespace lockstep::ir
