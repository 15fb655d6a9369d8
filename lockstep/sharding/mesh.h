#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/fingerprint.h"
#include "lockstep/program/aval.h"
#include "lockstep/program/axis_env.h"
#include "lockstep/sharding/device.h"

namespace lockstep {

/// Devices in a grid whose dimensions, the mesh axes, have names. An immutable value, cheap to copy.
class Mesh {
 public:
  /// The devices in row-major order. Throws ShardingError for a device or an axis named twice, and where the
  /// sizes do not multiply to the number of devices.
  Mesh(std::vector<Device> devices, Shape shape, std::vector<std::string> axis_names);

  const std::vector<Device>& devices() const { return state_->devices; }
  const Shape& shape() const { return state_->shape; }
  const std::vector<std::string>& axis_names() const { return state_->axis_names; }
  std::int64_t size() const { return static_cast<std::int64_t>(state_->devices.size()); }

  /// Throws ShardingError, listing the axes, where there is none of the name.
  std::int64_t axis_size(const std::string& axis) const { return state_->axes.size(axis); }
  const AxisEnv& axis_env() const { return state_->axes; }

  /// The positions of the devices of one process, in mesh order.
  std::vector<int> positions_of_process(int process_index) const;

  Fingerprint fingerprint() const { return state_->fingerprint; }
  bool operator==(const Mesh& other) const;

  /// "Mesh(data=4, model=2)".
  std::string to_string() const;

 private:
  struct State {
    std::vector<Device> devices;
    Shape shape;
    std::vector<std::string> axis_names;
    AxisEnv axes;
    Fingerprint fingerprint;
  };
  std::shared_ptr<const State> state_;
};

/// The sizes of mesh axes over `num_devices` devices; one may be given as -1 and is worked out. Throws
/// ShardingError where they cannot multiply to the number.
Shape resolve_mesh_shape(const std::vector<std::pair<std::string, std::int64_t>>& axes,
                         std::int64_t num_devices);

}  // namespace lockstep
