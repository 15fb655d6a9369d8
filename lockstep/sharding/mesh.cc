#include "lockstep/sharding/mesh.h"

#include <algorithm>
#include <set>

#include "lockstep/base/fail.h"

namespace lockstep {

std::string Device::to_string() const {
  std::string platform = info_->platform;
  if (!platform.empty())
    platform[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(platform[0])));
  return fmt::format("{}Device(id={})", platform, id());
}

Mesh::Mesh(std::vector<Device> devices, Shape shape, std::vector<std::string> axis_names) {
  if (shape.size() != axis_names.size()) {
    fail<ShardingError>("[Mesh] expected a name for each of the {} dimensions of {}, got {}", shape.size(),
                        lockstep::to_string(shape), axis_names.size());
  }
  if (std::set(axis_names.begin(), axis_names.end()).size() != axis_names.size()) {
    fail<ShardingError>("[Mesh] an axis is named twice; give each axis a name of its own");
  }
  if (num_elements(shape) != static_cast<std::int64_t>(devices.size())) {
    fail<ShardingError>("[Mesh] the shape {} needs {} devices, got {}", lockstep::to_string(shape),
                        num_elements(shape), devices.size());
  }
  std::set<int> ids;
  std::vector<std::pair<std::string, std::int64_t>> axes;
  std::string text = lockstep::to_string(shape);
  for (Device device : devices) {
    if (!ids.insert(device.id()).second)
      fail<ShardingError>("[Mesh] {} stands in it twice", device.to_string());
    text += fmt::format(" {}", device.id());
  }
  for (std::size_t i = 0; i < shape.size(); ++i) {
    axes.emplace_back(axis_names[i], shape[i]);
    text += " " + axis_names[i];
  }
  Fingerprint digest = lockstep::fingerprint(text);
  state_ = std::make_shared<const State>(
      State{std::move(devices), std::move(shape), std::move(axis_names), AxisEnv(std::move(axes)), digest});
}

std::vector<int> Mesh::positions_of_process(int process_index) const {
  std::vector<int> positions;
  for (std::size_t i = 0; i < devices().size(); ++i) {
    if (devices()[i].process_index() == process_index) positions.push_back(static_cast<int>(i));
  }
  return positions;
}

bool Mesh::operator==(const Mesh& other) const {
  return state_ == other.state_ ||
         (shape() == other.shape() && axis_names() == other.axis_names() && devices() == other.devices());
}

std::string Mesh::to_string() const {
  std::string text;
  for (const auto& [name, size] : axis_env().axes())
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, size);
  return fmt::format("Mesh({})", text);
}

Shape resolve_mesh_shape(const std::vector<std::pair<std::string, std::int64_t>>& axes,
                         std::int64_t num_devices) {
  Shape shape;
  std::int64_t known = 1, open = -1;
  std::string text;
  for (const auto& [name, size] : axes) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, size);
    if (size == -1 && open < 0)
      open = static_cast<std::int64_t>(shape.size());
    else if (size < 1)
      fail<ShardingError>("[make_mesh] axis '{}' has size {}: sizes are at least 1, and one may be -1", name,
                          size);
    else
      known *= size;
    shape.push_back(size);
  }
  if (open >= 0) {
    if (num_devices % known != 0) {
      fail<ShardingError>("[make_mesh] the axes ({}) do not divide {} devices: {} leaves a remainder of {}",
                          text, num_devices, known, num_devices % known);
    }
    shape[static_cast<std::size_t>(open)] = num_devices / known;
  } else if (known != num_devices) {
    fail<ShardingError>(
        "[make_mesh] the axes ({}) need {} devices, there are {}; let one size be -1 to take what there is",
        text, known, num_devices);
  }
  return shape;
}

}  // namespace lockstep
