// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/devices.h"

#include "lockstep/runtime/runtime.h"
#include "lockstep/sharding/device_mesh.h"

namespace lockstep {
namespace {
runtime::Runtime& get(const std::source_location& where) {
  return runtime::Runtime::get(CallSite::from(where));
}
}  // namespace

int process_index(std::source_location where) { return get(where).process_index(); }
int process_count(std::source_location where) { return get(where).process_count(); }
const std::vector<Device>& devices(std::source_location where) { return get(where).devices(); }
const std::vector<Device>& local_devices(std::source_location where) { return get(where).local_devices(); }
int device_count(std::source_location where) { return static_cast<int>(get(where).devices().size()); }
int local_device_count(std::source_location where) {
  return static_cast<int>(get(where).local_devices().size());
}

Mesh make_mesh(const std::vector<std::pair<std::string, std::int64_t>>& axes, std::source_location where) {
  runtime::Runtime& runtime = get(where);
  return make_mesh(runtime.described() ? runtime.plan().axes_to_try(axes) : axes, runtime.devices(), where);
}

Mesh make_mesh(const std::vector<std::pair<std::string, std::int64_t>>& axes, std::vector<Device> devices,
               std::source_location where) {
  CallSiteScope scope(CallSite::from(where));
  std::vector<std::string> names;
  for (const auto& [name, size] : axes) names.push_back(name);
  Shape sizes = sharding::resolve_axis_sizes(axes, static_cast<std::int64_t>(devices.size()));
  devices = create_device_mesh(sizes, std::move(devices), {.allow_split_physical_axes = true});
  return Mesh(std::move(devices), std::move(sizes), std::move(names), where);
}

}  // namespace lockstep
