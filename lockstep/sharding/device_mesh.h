#pragma once

#include <vector>

#include "lockstep/program/aval.h"
#include "lockstep/sharding/device.h"

namespace lockstep {

struct DeviceMeshOptions {
  /// Whether an axis of the torus may be divided among axes of the mesh where whole ones do not fit.
  bool allow_split_physical_axes = false;
};

/// The devices in an order in which neighbours along the axes of a mesh are near each other, row-major, for
/// Mesh's constructor: as JAX's mesh_utils.create_device_mesh orders them. `mesh_shape` is ordered by rising
/// need of communication, the last axis having the most.
///
/// The chips of a slice of TPUs are a torus; each axis of the mesh, the last one first, takes as many whole
/// axes of the torus as it can. Small slices become a ring. Other devices, and those of several slices, stay
/// in the order that they are given in.
///
/// Throws ShardingError where the sizes do not multiply to the number of devices; where an axis of the mesh
/// is no product of axes of the torus and they may not be split; and where chips are missing in the torus.
std::vector<Device> create_device_mesh(const Shape& mesh_shape, std::vector<Device> devices,
                                       const DeviceMeshOptions& options = {});

struct HybridMeshOptions {
  /// The parts that the slower network connects are processes, such as hosts of GPUs; otherwise slices.
  bool process_is_granule = false;
  bool allow_split_physical_axes = false;
};

/// The same for devices in parts that a slower network connects, slices or processes: along each axis of the
/// mesh, whose size is the product of its sizes in both shapes, dcn_mesh_shape says over how many parts it
/// goes; the devices of a part lie together in it. As JAX's mesh_utils.create_hybrid_device_mesh.
///
/// Throws ShardingError where the shapes have different lengths, or dcn_mesh_shape does not multiply to the
/// number of parts, or as create_device_mesh of mesh_shape and one part's devices.
///   Mesh(create_hybrid_device_mesh({1, 16}, {2, 1}, devices()), {2, 16}, {"data", "model"})    two slices of
///   16
std::vector<Device> create_hybrid_device_mesh(const Shape& mesh_shape, const Shape& dcn_mesh_shape,
                                              const std::vector<Device>& devices,
                                              const HybridMeshOptions& options = {});

}  // namespace lockstep
