#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/cluster/system.h"
#include "lockstep/coordination/key_value_store.h"
#include "lockstep/pjrt/client.h"
#include "lockstep/runtime/settings.h"

namespace lockstep::runtime {

/// The plugin to open.
struct PluginChoice {
  std::string path;
  std::string platform;  ///< "cpu" or "cuda": whose options it takes
};

/// How many NVIDIA GPUs this process may see: the entries of CUDA_VISIBLE_DEVICES where that is set,
/// otherwise the device files; nullopt where there is a GPU but it cannot be told how many.
std::optional<int> visible_gpus(const Environment& environment, const cluster::System& system);

/// The plugin of the platform asked for. `auto` is CUDA where a GPU is seen and the CUDA plugin is there, and
/// CPU otherwise, with a warning where a GPU is seen and the plugin is missing. A plugin that
/// LOCKSTEP_PJRT_PLUGIN names is a CUDA plugin, for `auto`, where its attributes tell a CUDA version. Throws
/// PjrtError where the plugin cannot be found or opened.
PluginChoice choose_plugin(const std::string& platform, const Environment& environment,
                           const cluster::System& system = cluster::System::real(),
                           const std::vector<std::string>& cuda_paths = pjrt::default_plugin_paths("cuda"));

/// What JAX gives its CUDA plugin: node_id and num_nodes in a job of several processes; visible_devices,
/// which are those that chosen_devices chooses; allocator, memory_fraction and preallocate as
/// LOCKSTEP_CUDA_ALLOCATOR, LOCKSTEP_CUDA_MEMORY_FRACTION and LOCKSTEP_CUDA_PREALLOCATE say, or the names
/// that JAX reads (XLA_PYTHON_CLIENT_ALLOCATOR and so on). Throws InitializationError for what cannot be.
pjrt::ClientOptions cuda_options(const cluster::Place& place, const Environment& environment,
                                 const cluster::System& system = cluster::System::real());

/// Callbacks over the job's store, which must outlive the client. Keys have a folder of their own.
pjrt::KeyValueCallbacks key_values_of(coordination::KeyValueStore& store);

}  // namespace lockstep::runtime
