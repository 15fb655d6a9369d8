#include "lockstep/sharding/sharding.h"

#include <algorithm>
#include <set>

#include "lockstep/base/fail.h"

namespace lockstep {
namespace {

const std::vector<std::string> kNoAxes;

/// A position's place along the axes, row-major.
std::int64_t place_along(const AxisEnv& env, const std::vector<std::string>& axes, int position) {
  std::int64_t place = 0;
  for (const std::string& axis : axes)
    place = place * env.size(axis) + position / env.stride(axis) % env.size(axis);
  return place;
}

}  // namespace

void PartitionSpec::trim() {
  while (!entries_.empty() && entries_.back().axes().empty()) entries_.pop_back();
}

const std::vector<std::string>& PartitionSpec::axes(std::size_t dimension) const {
  return dimension < entries_.size() ? entries_[dimension].axes() : kNoAxes;
}

std::string PartitionSpec::to_string() const {
  std::string text;
  for (const DimensionSpec& entry : entries_) {
    if (!text.empty()) text += ", ";
    if (entry.axes().empty())
      text += "None";
    else if (entry.axes().size() == 1)
      text += fmt::format("'{}'", entry.axes()[0]);
    else {
      std::string names;
      for (const std::string& axis : entry.axes())
        names += fmt::format("{}'{}'", names.empty() ? "" : ", ", axis);
      text += fmt::format("({})", names);
    }
  }
  return fmt::format("P({})", text);
}

Sharding::Sharding(Mesh mesh, PartitionSpec spec) {
  std::set<std::string> used;
  for (const DimensionSpec& entry : spec.entries()) {
    for (const std::string& axis : entry.axes()) {
      if (!mesh.axis_env().has(axis)) {
        fail<ShardingError>("[NamedSharding] {} names the axis '{}', which {} does not have",
                            spec.to_string(), axis, mesh.to_string());
      }
      if (!used.insert(axis).second) {
        fail<ShardingError>("[NamedSharding] {} names the axis '{}' twice; an axis splits one dimension",
                            spec.to_string(), axis);
      }
    }
  }
  Fingerprint digest = combine(mesh.fingerprint(), lockstep::fingerprint(spec.to_string()));
  state_ = std::make_shared<const State>(State{true, std::move(mesh), std::move(spec), digest});
}

Sharding::Sharding(Device device) {
  Mesh mesh({device}, {}, {});
  Fingerprint digest = combine(mesh.fingerprint(), 1);
  state_ = std::make_shared<const State>(State{false, std::move(mesh), PartitionSpec(), digest});
}

Shape Sharding::shard_shape(const Shape& global_shape) const {
  check_divisible(global_shape, spec(), mesh().axis_env(),
                  state_->named ? "[NamedSharding]" : "[SingleDeviceSharding]");
  Shape shape = global_shape;
  for (std::size_t d = 0; d < shape.size(); ++d) shape[d] /= mesh().axis_env().size(spec().axes(d));
  return shape;
}

std::vector<IndexRange> Sharding::indices(const Shape& global_shape, int position) const {
  Shape shape = shard_shape(global_shape);
  std::vector<IndexRange> ranges;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::int64_t start = place_along(mesh().axis_env(), spec().axes(d), position) * shape[d];
    ranges.push_back({start, start + shape[d]});
  }
  return ranges;
}

int Sharding::replica_id(int position) const {
  std::vector<std::string> unused;
  for (const std::string& axis : mesh().axis_names()) {
    bool used = std::ranges::any_of(spec().entries(), [&](const DimensionSpec& entry) {
      return std::ranges::find(entry.axes(), axis) != entry.axes().end();
    });
    if (!used) unused.push_back(axis);
  }
  return static_cast<int>(place_along(mesh().axis_env(), unused, position));
}

bool Sharding::is_fully_replicated() const {
  return std::ranges::all_of(spec().entries(), [&](const DimensionSpec& entry) {
    return mesh().axis_env().size(entry.axes()) == 1;
  });
}

bool Sharding::is_fully_addressable(int process_index) const {
  return std::ranges::all_of(devices(),
                             [&](Device device) { return device.process_index() == process_index; });
}

bool Sharding::operator==(const Sharding& other) const {
  return state_ == other.state_ ||
         (state_->fingerprint == other.state_->fingerprint && is_named() == other.is_named() &&
          mesh() == other.mesh() && spec() == other.spec());
}

std::string Sharding::to_string() const {
  return is_named() ? fmt::format("NamedSharding({}, {})", mesh().to_string(), spec().to_string())
                    : fmt::format("SingleDeviceSharding({})", devices()[0].to_string());
}

void check_divisible(const Shape& shape, const PartitionSpec& spec, const AxisEnv& axes,
                     std::string_view what) {
  if (spec.entries().size() > shape.size()) {
    fail<ShardingError>("{} {} has {} entries, but an array of shape {} has {} dimensions", what,
                        spec.to_string(), spec.entries().size(), to_string(shape), shape.size());
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::int64_t parts = axes.size(spec.axes(d));
    std::int64_t remainder = shape[d] % parts;
    if (remainder == 0) continue;
    std::string names;
    for (const std::string& axis : spec.axes(d))
      names += fmt::format("{}'{}'", names.empty() ? "" : " and ", axis);
    std::int64_t below = shape[d] - remainder, above = below + parts;
    fail<ShardingError>(
        "{} dimension {} of shape {} has {} elements, which mesh axis {} of {} devices does not divide "
        "(remainder {}); the nearest size that fits is {}",
        what, d, to_string(shape), shape[d], names, parts, remainder,
        below > 0 ? fmt::format("{} or {}", below, above) : fmt::format("{}", above));
  }
}

}  // namespace lockstep
