#pragma once

#include <optional>

#include "lockstep/base/environment.h"
#include "lockstep/cluster/place.h"
#include "lockstep/cluster/system.h"
#include "lockstep/pjrt/client.h"

namespace lockstep::runtime {

/// How many NVIDIA GPUs this process may see: the entries of CUDA_VISIBLE_DEVICES where that is set,
/// otherwise the device files; nullopt where there is a GPU but it cannot be told how many.
std::optional<int> visible_gpus(const Environment& environment, const cluster::System& system);

/// What JAX gives its CUDA plugin: node_id and num_nodes in a job of several processes; visible_devices,
/// which are those that chosen_devices chooses; allocator, memory_fraction and preallocate as
/// LOCKSTEP_CUDA_ALLOCATOR, LOCKSTEP_CUDA_MEMORY_FRACTION and LOCKSTEP_CUDA_PREALLOCATE say, or the names
/// that JAX reads (XLA_PYTHON_CLIENT_ALLOCATOR and so on). Throws InitializationError for what cannot be.
pjrt::ClientOptions cuda_options(const cluster::Place& place, const Environment& environment,
                                 const cluster::System& system = cluster::System::real());

}  // namespace lockstep::runtime
