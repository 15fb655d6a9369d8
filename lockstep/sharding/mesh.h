#pragma once

#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/fingerprint.h"
#include "lockstep/program/aval.h"
#include "lockstep/program/axis_env.h"
#include "lockstep/sharding/device.h"

namespace lockstep {

/// Devices in an n-dimensional grid with named axes. Immutable; a handle, cheap to copy.
class Mesh {
 public:
  /// `devices` are in row-major order of `shape`, the last axis running fastest. Throws ShardingError for a
  /// device or an axis named twice, an axis without name, sizes that do not multiply to the number of
  /// devices, and no devices at all.
  Mesh(std::vector<Device> devices, Shape shape, std::vector<std::string> axis_names,
       std::source_location where = std::source_location::current());

  const std::vector<std::string>& axis_names() const;
  const Shape& shape() const;

  /// Number of devices along one axis. Throws ShardingError, with the axes that there are, for another name.
  std::int64_t axis_size(const std::string& axis) const;

  /// The devices that have this place along the axis, over the other axes. Throws ShardingError for an
  /// unknown axis and a place that it does not have.
  ///   make_mesh({{"stage", 2}, {"data", 4}}).sub_mesh("stage", 0)    Mesh(data=4) of the first half
  Mesh sub_mesh(const std::string& axis, std::int64_t index,
                std::source_location where = std::source_location::current()) const;

  /// Row-major. A device's index here is its position in programs partitioned over the mesh.
  const std::vector<Device>& devices() const;

  /// Number of devices.
  std::int64_t size() const;

  /// The device's index in devices(), or -1.
  int position(Device device) const;

  const AxisEnv& axis_env() const;

  /// Of axes and device ids; the same on every process.
  Fingerprint fingerprint() const;

  /// Same devices in the same order, same axes.
  bool operator==(const Mesh& other) const;

  /// "Mesh(data=4, model=2)".
  std::string to_string() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

inline std::string to_string(const Mesh& mesh) { return mesh.to_string(); }

/// The sizes of a mesh's axes over `num_devices` devices, with the one -1 among them worked out. Throws
/// ShardingError for two -1, a size below 1, and sizes that do not multiply to (with -1: divide) the number
/// of devices.
Shape resolve_axis_sizes(std::span<const std::pair<std::string, std::int64_t>> axes,
                         std::int64_t num_devices);

}  // namespace lockstep
