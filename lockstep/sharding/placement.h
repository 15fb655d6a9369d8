// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/program/primitives/placement.h"
#include "lockstep/sharding/mesh.h"
#include "lockstep/sharding/partition_spec.h"

namespace lockstep::sharding {

/// The parameters of a placement over the mesh. `manual` is as in PlacementParams.
ir::PlacementParams placement(const Mesh& mesh, const PartitionSpec& spec,
                              std::vector<std::string> manual = {});

/// The mesh of a placement; `devices` are all devices by id. Throws Error if an id does not exist.
Mesh mesh_of(const ir::PlacementParams& placement, const std::vector<Device>& devices);

}  // namespace lockstep::sharding
