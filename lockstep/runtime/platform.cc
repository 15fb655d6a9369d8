// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/platform.h"

#include "lockstep/base/log.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::runtime {

std::string plugin_of(const Platform& platform, const Environment& environment, PluginPaths paths) {
  std::vector<std::string> places = paths(platform.name());
  if (std::string given = platform.given_path(environment); !given.empty())
    places.insert(places.begin(), std::move(given));
  return pjrt::find_plugin(environment, places, platform.name());
}

PluginChoice choose_plugin(const std::string& platform, const Environment& environment,
                           const cluster::System& system, PluginPaths paths) {
  if (auto given = cluster::find_variable(environment, {"LOCKSTEP_PJRT_PLUGIN"})) {
    if (platform != "auto") return {given->value, &platform_named(platform)};
    for (const Platform* each : platforms())
      if (each->owns(*pjrt::Plugin::load(given->value))) return {given->value, each};
  }
  if (platform != "auto") {
    const Platform& asked = platform_named(platform);
    return {plugin_of(asked, environment, paths), &asked};
  }
  for (const Platform* each : platforms()) {
    if (each == &cpu_platform() || !each->is_seen(environment, system)) continue;
    std::vector<std::string> places = paths(each->name());
    places.insert(places.begin(), each->given_path(environment));
    if (std::string path = pjrt::first_plugin(places); !path.empty()) return {path, each};
    logging::warning(
        "{} is seen, but there is no {} plugin: computing on CPU. Run {}, or set LOCKSTEP_PLATFORM=cpu",
        each->device_title(), each->title(), each->setup());
  }
  return {plugin_of(cpu_platform(), environment, paths), &cpu_platform()};
}

pjrt::KeyValueCallbacks key_values_of(coordination::KeyValueStore& store) {
  const std::string folder = "lockstep/plugin/";
  return {
      .get = [&store, folder](const std::string& key,
                              std::chrono::milliseconds timeout) { return store.get(folder + key, timeout); },
      .try_get = [&store, folder](const std::string& key) { return store.try_get(folder + key); },
      .put = [&store, folder](const std::string& key,
                              const std::string& value) { store.set(folder + key, value); }};
}

}  // namespace lockstep::runtime
