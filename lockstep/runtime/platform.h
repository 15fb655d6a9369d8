#pragma once

#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/cluster/system.h"
#include "lockstep/coordination/key_value_store.h"
#include "lockstep/pjrt/client.h"
#include "lockstep/runtime/platforms/platform.h"

namespace lockstep::runtime {

/// The plugin to open.
struct PluginChoice {
  std::string path;
  const Platform* platform;  ///< whose options it takes
};

/// Where a platform's plugin is looked for, by the platform's name.
using PluginPaths = std::vector<std::string> (*)(std::string_view platform);

/// The plugin of the platform asked for. `auto` is the first of TPU and CUDA of which a device is seen and
/// whose plugin is there, and CPU otherwise, with a warning where a device is seen and its plugin is missing.
/// Of a plugin that LOCKSTEP_PJRT_PLUGIN names, `auto` asks itself whose it is. Throws PjrtError where the
/// plugin cannot be found or opened.
PluginChoice choose_plugin(const std::string& platform, const Environment& environment,
                           const cluster::System& system = cluster::System::real(),
                           PluginPaths paths = pjrt::default_plugin_paths);

/// The path of the plugin of this platform. Throws PjrtError where there is none.
std::string plugin_of(const Platform& platform, const Environment& environment,
                      PluginPaths paths = pjrt::default_plugin_paths);

/// Callbacks over the job's store, which must outlive the client. Keys have a folder of their own.
pjrt::KeyValueCallbacks key_values_of(coordination::KeyValueStore& store);

}  // namespace lockstep::runtime
