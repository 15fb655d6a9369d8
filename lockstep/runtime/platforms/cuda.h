// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>

#include "lockstep/base/environment.h"
#include "lockstep/cluster/place.h"
#include "lockstep/cluster/system.h"
#include "lockstep/pjrt/client.h"
#include "lockstep/program/lower.h"

namespace lockstep::runtime {

/// The number of NVIDIA GPUs that this process may use: the entries of CUDA_VISIBLE_DEVICES if it is set,
/// otherwise the device files; nullopt if there are GPUs but their number is unknown.
std::optional<int> visible_gpus(const Environment& environment, const cluster::System& system);

/// The options that JAX gives its CUDA plugin: node_id and num_nodes in a job of several processes;
/// visible_devices, from chosen_devices; allocator, memory_fraction and preallocate from
/// LOCKSTEP_CUDA_ALLOCATOR, LOCKSTEP_CUDA_MEMORY_FRACTION and LOCKSTEP_CUDA_PREALLOCATE, or the variables of
/// JAX (XLA_PYTHON_CLIENT_ALLOCATOR and so on). Throws InitializationError for invalid values.
pjrt::ClientOptions cuda_options(const cluster::Place& place, const Environment& environment,
                                 const cluster::System& system = cluster::System::real());

/// LowerOptions::cudnn_features for this GPU, by its compute capability: cuDNN's limits, as JAX has them
/// (jax/_src/cudnn/fused_attention_stablehlo.py). 0 below 8.0, and if the plugin does not report it.
std::int64_t cudnn_features(const pjrt::DeviceDescription& gpu);

/// What programs for these GPUs of this process call: nothing if there are none, because they are only
/// described. LOCKSTEP_CUDNN_ATTENTION=0 leaves attention to XLA, LOCKSTEP_CUSOLVER=0 decompositions.
void set_libraries(ir::LowerOptions& options, std::span<const pjrt::DeviceDescription> gpus,
                   const Environment& environment);

}  // namespace lockstep::runtime
