#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// The mesh axes that collectives may name, major to minor, with their sizes. A device's position is its
/// place in the mesh, counted row-major.
///
/// A part of an axis is named as Shardy writes it: of an axis `x` of 8, counted as 2 x 2 x 2, `x:(1)2` is the
/// first, `x:(2)2` the one behind 2 places, and `x:(4)2` the last.
class AxisEnv {
 public:
  AxisEnv() = default;
  explicit AxisEnv(std::vector<std::pair<std::string, std::int64_t>> axes) : axes_(std::move(axes)) {}

  const std::vector<std::pair<std::string, std::int64_t>>& axes() const { return axes_; }
  bool has(const std::string& axis) const;

  /// The name of the part of an axis that has `size` places, each of which is `before` times in the axis.
  static std::string part_name(const std::string& axis, std::int64_t before, std::int64_t size);

  /// Number of devices along one axis. Throws ShardingError, listing the axes in force, where there is none
  /// of the name.
  std::int64_t size(const std::string& axis) const;

  /// Number of devices along several axes: the product.
  std::int64_t size(std::span<const std::string> axes) const;

  /// Number of positions.
  std::int64_t num_positions() const;

  /// How far positions lie apart along the axis.
  std::int64_t stride(const std::string& axis) const;

  /// The groups of positions that differ only along `axes`, each in row-major order of `axes` as given.
  std::vector<std::vector<int>> groups(std::span<const std::string> axes) const;

  /// With one more axis, the innermost, over whose examples vmap maps. It is no axis of devices: what differs
  /// along it is not counted as varying. An axis of the name is hidden.
  AxisEnv with_mapped(const std::string& axis, std::int64_t size) const;
  bool is_mapped(const std::string& axis) const;

  /// The axes of devices only. An axis that a mapped one hides is not among them.
  AxisEnv without_mapped() const;

  /// The environment that shard_map and pmap (and vmap with an axis name) set up around the function they
  /// trace, on this thread; empty outside.
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

}  // namespace lockstep
