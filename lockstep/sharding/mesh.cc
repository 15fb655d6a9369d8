// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/mesh.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "lockstep/base/call_site.h"
#include "lockstep/base/fail.h"

namespace lockstep {
namespace {

std::string sizes_text(std::span<const std::pair<std::string, std::int64_t>> axes) {
  std::string text;
  for (const auto& [name, size] : axes) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, size);
  return "(" + text + ")";
}

std::string at() {
  const CallSite& site = CallSiteScope::current();
  return site.known() ? fmt::format(" (at {})", site.to_string()) : "";
}

}  // namespace

struct Mesh::State {
  std::vector<Device> devices;
  Shape shape;
  std::vector<std::string> axis_names;
  ir::AxisEnv axis_env;
  std::unordered_map<int, int> positions;  // of a device's id
  Fingerprint fingerprint = 0;
};

Mesh::Mesh(std::vector<Device> devices, Shape shape, std::vector<std::string> axis_names,
           std::source_location where) {
  CallSiteScope scope(CallSite::from(where));
  const std::string at = CallSiteScope::current().to_string();
  if (shape.size() != axis_names.size()) {
    fail<ShardingError>("[Mesh] {} sizes ({}) for {} axes ({}) (at {}); give one size for each axis",
                        shape.size(), fmt::join(shape, ", "), axis_names.size(), fmt::join(axis_names, ", "),
                        at);
  }
  std::vector<std::pair<std::string, std::int64_t>> axes;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (axis_names[i].empty()) fail<ShardingError>("[Mesh] axis {} has no name (at {})", i, at);
    if (std::ranges::count(axis_names, axis_names[i]) != 1) {
      fail<ShardingError>("[Mesh] axis '{}' is named {} times (at {}); every axis needs its own name",
                          axis_names[i], std::ranges::count(axis_names, axis_names[i]), at);
    }
    axes.emplace_back(axis_names[i], shape[i]);
  }
  for (const auto& [name, size] : axes) {
    if (size < 1)
      fail<ShardingError>("[Mesh] axis '{}' has size {} (at {}); expected at least 1", name, size, at);
  }
  const std::int64_t product = num_elements(shape);
  if (devices.empty() || product != static_cast<std::int64_t>(devices.size())) {
    fail<ShardingError>(
        "[Mesh] axes {} make {} places, but there are {} devices (at {}); expected one device for each place",
        sizes_text(axes), product, devices.size(), at);
  }
  auto state = std::make_shared<State>();
  std::string text;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    auto [place, is_new] = state->positions.emplace(devices[i].id(), static_cast<int>(i));
    if (!is_new) {
      fail<ShardingError>(
          "[Mesh] {} is at position {} and again at position {} (at {}); a mesh has each device once",
          devices[i].to_string(), place->second, i, at);
    }
    text += fmt::format("{},", devices[i].id());
  }
  state->fingerprint = lockstep::fingerprint(sizes_text(axes) + text);
  state->devices = std::move(devices);
  state->shape = std::move(shape);
  state->axis_names = std::move(axis_names);
  state->axis_env = ir::AxisEnv(std::move(axes));
  state_ = std::move(state);
}

const std::vector<std::string>& Mesh::axis_names() const { return state_->axis_names; }
const Shape& Mesh::shape() const { return state_->shape; }
const std::vector<Device>& Mesh::devices() const { return state_->devices; }
const ir::AxisEnv& Mesh::axis_env() const { return state_->axis_env; }
Fingerprint Mesh::fingerprint() const { return state_->fingerprint; }
std::int64_t Mesh::size() const { return static_cast<std::int64_t>(state_->devices.size()); }

std::int64_t Mesh::axis_size(const std::string& axis) const {
  for (const auto& [name, size] : state_->axis_env.axes()) {
    if (name == axis) return size;
  }
  fail<ShardingError>("{} has no axis '{}'{}", to_string(), axis, at());
}

Mesh Mesh::sub_mesh(const std::string& axis, std::int64_t index, std::source_location where) const {
  CallSiteScope scope(CallSite::from(where));
  const std::int64_t size = axis_size(axis), stride = axis_env().stride(axis);
  if (index < 0 || index >= size) {
    fail<ShardingError>("[sub_mesh] {} has places 0 to {} along '{}', not {}{}", to_string(), size - 1, axis,
                        index, at());
  }
  std::vector<Device> devices;
  for (std::int64_t position = 0; position < this->size(); ++position) {
    if (position / stride % size == index)
      devices.push_back(state_->devices[static_cast<std::size_t>(position)]);
  }
  Shape shape;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < axis_names().size(); ++i) {
    if (axis_names()[i] == axis) continue;
    shape.push_back(state_->shape[i]);
    names.push_back(axis_names()[i]);
  }
  return Mesh(std::move(devices), std::move(shape), std::move(names), where);
}

Mesh Mesh::local_mesh(int process_index, std::source_location where) const {
  CallSiteScope scope(CallSite::from(where));
  std::vector<Device> devices;
  std::vector<std::set<std::int64_t>> places(axis_names().size());  // along each axis
  for (std::int64_t position = 0; position < size(); ++position) {
    const Device device = state_->devices[static_cast<std::size_t>(position)];
    if (device.process_index() != process_index) continue;
    devices.push_back(device);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::string& axis = axis_names()[i];
      places[i].insert(position / axis_env().stride(axis) % axis_size(axis));
    }
  }
  if (devices.empty())
    fail<ShardingError>("[local_mesh] {} has no device of process {}{}", to_string(), process_index, at());
  Shape shape;
  for (const std::set<std::int64_t>& each : places) shape.push_back(std::ssize(each));
  if (num_elements(shape) != std::ssize(devices)) {
    fail<ShardingError>(
        "[local_mesh] the {} devices of process {} are not a block of {}: they have {} places along its "
        "axes{}",
        devices.size(), process_index, to_string(), lockstep::to_string(shape), at());
  }
  return Mesh(std::move(devices), std::move(shape), axis_names(), where);
}

int Mesh::position(Device device) const {
  auto found = state_->positions.find(device.id());
  return found == state_->positions.end() ? -1 : found->second;
}

bool Mesh::operator==(const Mesh& other) const {
  return state_ == other.state_ ||
         (fingerprint() == other.fingerprint() && axis_names() == other.axis_names() &&
          shape() == other.shape() && devices() == other.devices());
}

std::string Mesh::to_string() const { return "Mesh" + sizes_text(state_->axis_env.axes()); }

Shape sharding::resolve_axis_sizes(std::span<const std::pair<std::string, std::int64_t>> axes,
                                   std::int64_t num_devices) {
  Shape sizes;
  std::int64_t known = 1;
  int unknown = -1;
  for (const auto& [name, size] : axes) {
    if (size == -1 && unknown != -1) {
      fail<ShardingError>("[make_mesh] axes {}{}: only one size may be -1", sizes_text(axes), at());
    }
    if (size == -1) {
      unknown = static_cast<int>(sizes.size());
    } else if (size < 1) {
      fail<ShardingError>("[make_mesh] axis '{}' has size {}{}; expected at least 1, or -1 for the rest",
                          name, size, at());
    } else {
      known *= size;
    }
    sizes.push_back(size);
  }
  if (unknown == -1) {
    if (known != num_devices) {
      fail<ShardingError>(
          "[make_mesh] axes {} make {} places, but there are {} devices{}; one size may be -1, to take "
          "what is left",
          sizes_text(axes), known, num_devices, at());
    }
    return sizes;
  }
  if (num_devices % known != 0 || num_devices == 0) {
    fail<ShardingError>("[make_mesh] axes {}: {} devices cannot be divided among {} places (remainder {}){}",
                        sizes_text(axes), num_devices, known, num_devices % known, at());
  }
  sizes[static_cast<std::size_t>(unknown)] = num_devices / known;
  return sizes;
}

}  // namespace lockstep
