// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/cluster/system.h"
#include "lockstep/coordination/client/key_value_store.h"
#include "lockstep/pjrt/client.h"
#include "lockstep/runtime/platforms/platform.h"

namespace lockstep::runtime {

/// The plugin to open.
struct PluginChoice {
  std::string path;
  const Platform* platform;  ///< the platform whose options it takes
};

/// The paths of a platform's plugin, by the platform's name.
using PluginPaths = std::vector<std::string> (*)(std::string_view platform);

/// The plugin of the requested platform. `auto` chooses the first of TPU and CUDA of which a device is
/// detected and the plugin is installed, and otherwise CPU, with a warning if a device is detected and its
/// plugin is missing. For a plugin in LOCKSTEP_PJRT_PLUGIN, `auto` asks the plugin for its platform. Throws
/// PjrtError if the plugin cannot be found or opened.
PluginChoice choose_plugin(const std::string& platform, const Environment& environment,
                           const cluster::System& system = cluster::System::real(),
                           PluginPaths paths = pjrt::default_plugin_paths);

/// The path of this platform's plugin. Throws PjrtError if there is none.
std::string plugin_of(const Platform& platform, const Environment& environment,
                      PluginPaths paths = pjrt::default_plugin_paths);

/// Callbacks that use the job's store, which must outlive the client. Their keys are in a folder of their
/// own.
pjrt::KeyValueCallbacks key_values_of(coordination::KeyValueStore& store);

}  // namespace lockstep::runtime
