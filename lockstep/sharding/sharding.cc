// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>

#include "lockstep/base/call_site.h"
#include "lockstep/base/fail.h"
#include "lockstep/sharding/validation.h"

namespace lockstep {
void sharding::check_spec(const PartitionSpec& spec, const Mesh& mesh, std::string_view what) {
  sharding::check_spec(spec, mesh.axis_env(), what);
}

void sharding::check_divisible(const Aval& aval, const PartitionSpec& spec, const Mesh& mesh,
                               std::string_view what) {
  sharding::check_divisible(aval, spec, mesh.axis_env(), what);
}

struct Sharding::State {
  State(Mesh mesh, PartitionSpec spec, bool single)
      : mesh(std::move(mesh)), spec(std::move(spec)), single(single) {}

  Mesh mesh;
  PartitionSpec spec;
  bool single;
  bool replicated = true;
  Fingerprint fingerprint = 0;
  std::map<int, std::vector<int>> positions;  // of each process's devices

  /// The position's part of a dimension of `size` elements.
  IndexRange range(std::int64_t position, std::size_t dimension, std::int64_t size) const {
    const ir::AxisEnv& env = mesh.axis_env();
    std::int64_t part = 0, parts = 1;
    for (const std::string& axis : spec.axes(dimension)) {
      const std::int64_t n = env.size(axis);
      part = part * n + position / env.stride(axis) % n;
      parts *= n;
    }
    return {part * (size / parts), (part + 1) * (size / parts)};
  }

  std::vector<IndexRange> ranges(std::int64_t position, const Shape& shape) const {
    std::vector<IndexRange> all;
    for (std::size_t d = 0; d < shape.size(); ++d) all.push_back(range(position, d, shape[d]));
    return all;
  }
};

const Sharding::State* Sharding::intern(Mesh mesh, PartitionSpec spec, bool single) {
  static std::mutex mutex;
  // Never destroyed: shardings may outlive main in static variables.
  static auto& all = *new std::unordered_multimap<Fingerprint, std::unique_ptr<const State>>;

  spec = spec.normalized();
  Fingerprint key =
      combine(mesh.fingerprint(), lockstep::fingerprint(spec.to_string() + (single ? " single" : "")));
  std::lock_guard lock(mutex);
  auto [first, last] = all.equal_range(key);
  for (; first != last; ++first) {
    const State& state = *first->second;
    if (state.single == single && state.spec == spec && state.mesh == mesh) return &state;
  }
  auto state = std::make_unique<State>(std::move(mesh), std::move(spec), single);
  state->fingerprint = key;
  for (const auto& axes : state->spec.entries())
    state->replicated = state->replicated && state->mesh.axis_env().size(axes) == 1;
  const auto& devices = state->mesh.devices();
  for (std::size_t i = 0; i < devices.size(); ++i)
    state->positions[devices[i].process_index()].push_back(static_cast<int>(i));
  return all.emplace(key, std::move(state))->second.get();
}

const std::vector<Device>& Sharding::devices() const { return state_->mesh.devices(); }
const Mesh& Sharding::mesh() const { return state_->mesh; }
const PartitionSpec& Sharding::spec() const { return state_->spec; }
bool Sharding::is_single_device() const { return state_->single; }
bool Sharding::is_fully_replicated() const { return state_->replicated; }
Fingerprint Sharding::fingerprint() const { return state_->fingerprint; }

Shape Sharding::shard_shape(const Shape& global_shape) const {
  sharding::check_divisible(Aval{DType::kF32, global_shape}, spec(), mesh(), "shard_shape");
  Shape shape = global_shape;
  for (std::size_t d = 0; d < shape.size(); ++d) shape[d] /= mesh().axis_env().size(spec().axes(d));
  return shape;
}

std::vector<std::vector<IndexRange>> Sharding::device_indices(const Shape& global_shape) const {
  sharding::check_divisible(Aval{DType::kF32, global_shape}, spec(), mesh(), "device_indices");
  std::vector<std::vector<IndexRange>> indices;
  for (std::int64_t position = 0; position < mesh().size(); ++position)
    indices.push_back(state_->ranges(position, global_shape));
  return indices;
}

std::map<Device, std::vector<IndexRange>> Sharding::devices_indices_map(const Shape& global_shape) const {
  std::map<Device, std::vector<IndexRange>> map;
  auto indices = device_indices(global_shape);
  for (std::size_t i = 0; i < indices.size(); ++i) map.emplace(devices()[i], std::move(indices[i]));
  return map;
}

const std::vector<int>& Sharding::addressable_positions(int process_index) const {
  static const std::vector<int> kNone;
  auto found = state_->positions.find(process_index);
  return found == state_->positions.end() ? kNone : found->second;
}

bool Sharding::is_fully_addressable(int process_index) const {
  return addressable_positions(process_index).size() == devices().size();
}

bool Sharding::is_equivalent_to(const Sharding& other, std::int64_t rank) const {
  if (*this == other) return true;
  if (devices() != other.devices()) return false;
  const std::size_t entries = std::max(spec().entries().size(), other.spec().entries().size());
  if (entries > static_cast<std::size_t>(rank)) return false;
  // A size that every split divides shows each device's part.
  const Shape shape(entries, mesh().size());
  for (std::int64_t position = 0; position < mesh().size(); ++position) {
    if (state_->ranges(position, shape) != other.state_->ranges(position, shape)) return false;
  }
  return true;
}

std::string Sharding::to_string() const {
  if (is_single_device()) return fmt::format("SingleDeviceSharding({})", devices().front().to_string());
  return fmt::format("NamedSharding({}, {})", mesh().to_string(), spec().to_string());
}

NamedSharding::NamedSharding(const Mesh& mesh, const PartitionSpec& spec, std::source_location where)
    : Sharding((sharding::check_spec(spec, mesh,
                                     fmt::format("NamedSharding (at {})", CallSite::from(where).to_string())),
                intern(mesh, spec, false))) {}

SingleDeviceSharding::SingleDeviceSharding(Device device)
    : Sharding(intern(Mesh({device}, {}, {}), PartitionSpec(), true)) {}

namespace {

/// A grid of the shape, each dimension split over its own axis.
Mesh grid_of(const std::vector<Device>& devices, const Shape& shape) {
  std::vector<std::string> names;
  for (std::size_t d = 0; d < shape.size(); ++d) names.push_back(std::to_string(d));
  return Mesh(devices, shape, std::move(names));
}

PartitionSpec each_dimension(const Mesh& mesh) {
  std::vector<std::vector<std::string>> entries;
  for (const std::string& axis : mesh.axis_names()) entries.push_back({axis});
  return PartitionSpec::from_entries(std::move(entries));
}

}  // namespace

PositionalSharding::PositionalSharding(const Mesh& mesh, const PartitionSpec& spec)
    : Sharding(intern(mesh, spec, false)) {}

PositionalSharding::PositionalSharding(const std::vector<Device>& devices)
    : PositionalSharding(grid_of(devices, {static_cast<std::int64_t>(devices.size())}), PartitionSpec("0")) {}

PositionalSharding PositionalSharding::reshape(const Shape& shape) const {
  const Mesh grid = grid_of(devices(), shape);
  return PositionalSharding(grid, each_dimension(grid));
}

PositionalSharding PositionalSharding::replicate(std::int64_t dimension) const {
  auto entries = spec().entries();
  if (dimension < 0 || dimension >= static_cast<std::int64_t>(mesh().shape().size())) {
    fail<ShardingError>(
        "[replicate] dimension {} is out of range for the grid's {} dimensions, counted from 0", dimension,
        mesh().shape().size());
  }
  if (static_cast<std::size_t>(dimension) < entries.size())
    entries[static_cast<std::size_t>(dimension)].clear();
  return PositionalSharding(mesh(), PartitionSpec::from_entries(std::move(entries)));
}

PositionalSharding PositionalSharding::replicate() const {
  return PositionalSharding(mesh(), PartitionSpec());
}

Shape PositionalSharding::shape() const {
  Shape shape(mesh().shape().size(), 1);
  for (std::size_t d = 0; d < spec().entries().size(); ++d) shape[d] = mesh().axis_env().size(spec().axes(d));
  return shape;
}

}  // namespace lockstep
