// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/program/aval.h"
#include "lockstep/sharding/device.h"

namespace lockstep {

struct DeviceMeshOptions {
  /// Whether an axis of the torus may be divided among several mesh axes if whole ones do not fit.
  bool allow_split_physical_axes = false;
};

/// The devices in row-major order for Mesh's constructor, such that neighbours along the mesh axes are close
/// to each other, in the order of JAX's mesh_utils.create_device_mesh. `mesh_shape` is ordered by increasing
/// communication: the last axis communicates most.
///
/// The chips of a TPU slice form a torus. Each mesh axis, beginning with the last one, takes as many whole
/// axes of the torus as it can. Small slices become a ring. Other devices, and devices of several slices,
/// keep the given order.
///
/// Throws ShardingError if the product of the sizes is not the number of devices; if a mesh axis is not a
/// product of torus axes and these must not be split; and if chips of the torus are missing.
std::vector<Device> create_device_mesh(const Shape& mesh_shape, std::vector<Device> devices,
                                       const DeviceMeshOptions& options = {});

struct HybridMeshOptions {
  /// Processes, such as hosts with GPUs, are the granules that the slower network connects; false: slices
  /// are.
  bool process_is_granule = false;
  bool allow_split_physical_axes = false;
};

/// Like create_device_mesh, for granules (slices or processes) that are connected by a slower network. The
/// size of each mesh axis is the product of its sizes in both shapes; dcn_mesh_shape is the number of
/// granules along the axis. The devices of a granule are neighbours in the mesh. The order is that of JAX's
/// mesh_utils.create_hybrid_device_mesh.
///
/// Throws ShardingError if the shapes have different lengths, if the product of dcn_mesh_shape is not the
/// number of granules, and as create_device_mesh does for mesh_shape and the devices of one granule.
///   Mesh(create_hybrid_device_mesh({1, 16}, {2, 1}, devices()), {2, 16}, {"data", "model"})    two slices of
///   16
std::vector<Device> create_hybrid_device_mesh(const Shape& mesh_shape, const Shape& dcn_mesh_shape,
                                              const std::vector<Device>& devices,
                                              const HybridMeshOptions& options = {});

}  // namespace lockstep
