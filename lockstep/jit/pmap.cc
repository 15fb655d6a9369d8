#include "lockstep/jit/pmap.h"

#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::internal {

Mesh pmap_mesh(const PmapOptions& options, const CallSite& site) {
  CallSiteScope scope(site);
  if (options.devices.empty()) return make_mesh({{options.axis_name, device_count()}});
  return Mesh(options.devices, {static_cast<std::int64_t>(options.devices.size())}, {options.axis_name});
}

Mesh local_part(const Mesh& mesh, const CallSite& site) {
  std::vector<Device> local;
  for (Device device : mesh.devices()) {
    if (device.process_index() == process_index()) local.push_back(device);
  }
  if (local.empty()) {
    fail<ShardingError>(
        "[pmap] process {} of {} has none of the {} devices (at {}); only processes that have one call it",
        process_index(), process_count(), mesh.size(), site.to_string());
  }
  const auto count = static_cast<std::int64_t>(local.size());
  return Mesh(std::move(local), {count}, mesh.axis_names());
}

std::optional<int> mapped_axis(const std::vector<std::optional<int>>& axes, std::size_t i, std::size_t count,
                               std::string_view which, const CallSite& site) {
  if (axes.size() != 1 && axes.size() != count) {
    fail<ShardingError>("[pmap] expected {} for {} {}, got {} (at {}); give one for each, or one for all",
                        which, count, which == "in_axes" ? "arguments" : "results", axes.size(),
                        site.to_string());
  }
  return axes[axes.size() == 1 ? 0 : i];
}

Aval device_aval(const Aval& aval, std::optional<int> mapped, const std::string& axis, std::int64_t devices,
                 const CallSite& site) {
  Aval part = aval;
  part.weak_type = false;
  if (!mapped) return part;
  if (*mapped < 0 || *mapped >= aval.rank() || aval.shape[static_cast<std::size_t>(*mapped)] != devices) {
    fail<ShardingError>(
        "[pmap] expected arrays with {} of {}, the number of local devices, got {} (at {}); map another "
        "dimension with in_axes, reshape it to have a row for each device, or use jit over a mesh",
        *mapped == 0 ? "a leading dimension" : fmt::format("a dimension {}", *mapped), devices,
        to_string(aval), site.to_string());
  }
  part.shape[static_cast<std::size_t>(*mapped)] = 1;
  part.varying = {axis};
  return part;
}

PartitionSpec mapped_spec(std::optional<int> mapped, const std::string& axis) {
  if (!mapped) return PartitionSpec();
  std::vector<std::vector<std::string>> entries(static_cast<std::size_t>(*mapped) + 1);
  entries.back() = {axis};
  return PartitionSpec::from_entries(std::move(entries));
}

Array without_mapped(const Array& array, std::optional<int> mapped) {
  if (!mapped) return array;
  Shape shape = array.shape();
  shape.erase(shape.begin() + *mapped);
  return lax::reshape(array, shape);
}

Array with_mapped(const Array& array, std::optional<int> mapped, const std::string& axis,
                  const CallSite& site) {
  const std::vector<std::string>& varying = array.aval().varying;
  if (!mapped) {
    if (varying.empty()) return array;
    fail<ShardingError>(
        "[pmap] a result ({}) differs between the devices along '{}', but its out_axes entry is none (at "
        "{}); give a "
        "dimension, or reduce it with psum or pmean",
        to_string(array.aval()), axis, site.to_string());
  }
  Shape shape = array.shape();
  if (*mapped < 0 || *mapped > static_cast<int>(shape.size())) {
    fail<ShardingError>("[pmap] out_axes has {}, but a result is {} (at {})", *mapped,
                        to_string(array.aval()), site.to_string());
  }
  shape.insert(shape.begin() + *mapped, 1);
  return lax::reshape(array, shape);
}

}  // namespace lockstep::internal
