// SPDX-License-Identifier: Apache-2.0
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

/// An n-dimensional grid of devices with named axes. Immutable; a handle, cheap to copy.
class Mesh {
 public:
  /// `devices` are in row-major order of `shape`: the last axis changes fastest. Throws ShardingError if a
  /// device or an axis name appears twice, an axis name is empty, the product of the sizes is not the number
  /// of devices, or there are no devices.
  Mesh(std::vector<Device> devices, Shape shape, std::vector<std::string> axis_names,
       std::source_location where = std::source_location::current());

  const std::vector<std::string>& axis_names() const;
  const Shape& shape() const;

  /// The number of devices along an axis. Throws ShardingError, with the existing axes, for an unknown name.
  std::int64_t axis_size(const std::string& axis) const;

  /// The devices at this index along the axis, as a mesh of the other axes. Throws ShardingError for an
  /// unknown axis or an index out of range.
  ///   make_mesh({{"stage", 2}, {"data", 4}}).sub_mesh("stage", 0)    Mesh(data=4) of the first half
  Mesh sub_mesh(const std::string& axis, std::int64_t index,
                std::source_location where = std::source_location::current()) const;

  /// The devices of one process, as a mesh of the same axes. Throws ShardingError if they are none, or not
  /// all combinations of their places along the axes.
  ///   make_mesh({{"data", 4}, {"model", 2}}).local_mesh(1)    of two processes: Mesh(data=2, model=2)
  Mesh local_mesh(int process_index, std::source_location where = std::source_location::current()) const;

  /// In row-major order. The index of a device here is its position in programs that are partitioned over the
  /// mesh.
  const std::vector<Device>& devices() const;

  /// The number of devices.
  std::int64_t size() const;

  /// The device's index in devices(), or -1.
  int position(Device device) const;

  const ir::AxisEnv& axis_env() const;

  /// A fingerprint of the axes and the device ids; the same on every process.
  Fingerprint fingerprint() const;

  /// Equal if the axes and the devices, in order, are equal.
  bool operator==(const Mesh& other) const;

  /// "Mesh(data=4, model=2)".
  std::string to_string() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

inline std::string to_string(const Mesh& mesh) { return mesh.to_string(); }

namespace sharding {

/// The sizes of mesh axes over `num_devices` devices; a size of -1 is computed. Throws ShardingError for two
/// sizes of -1, a size below 1, and if the product of the sizes is not (with -1: does not divide) the number
/// of devices.
Shape resolve_axis_sizes(std::span<const std::pair<std::string, std::int64_t>> axes,
                         std::int64_t num_devices);

}  // namespace sharding

}  // namespace lockstep
