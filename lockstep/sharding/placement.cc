// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/placement.h"

#include <algorithm>

#include "lockstep/base/fail.h"

namespace lockstep::sharding {

ir::PlacementParams placement(const Mesh& mesh, const PartitionSpec& spec, std::vector<std::string> manual) {
  ir::PlacementParams params{
      spec.normalized().entries(), mesh.axis_names(), mesh.shape(), {}, std::move(manual)};
  if (!spec.unconstrained().empty()) params.unconstrained = spec.unconstrained();
  for (Device device : mesh.devices()) params.devices.push_back(device.id());
  return params;
}

Mesh mesh_of(const ir::PlacementParams& placement, const std::vector<Device>& devices) {
  std::vector<Device> members;
  for (std::int64_t id : placement.devices) {
    auto found = std::ranges::find_if(devices, [id](Device device) { return device.id() == id; });
    if (found == devices.end()) fail("a program is over device {}, which does not exist", id);
    members.push_back(*found);
  }
  return Mesh(std::move(members), placement.sizes, placement.axes);
}

}  // namespace lockstep::sharding
