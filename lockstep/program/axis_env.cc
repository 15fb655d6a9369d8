#include "lockstep/program/axis_env.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/base/fail.h"

namespace lockstep {
namespace {

thread_local AxisEnv current_env;

std::size_t find(const AxisEnv& env, const std::string& axis) {
  const auto& axes = env.axes();
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].first == axis) return i;
  }
  std::vector<std::string> names;
  for (const auto& [name, size] : axes) names.push_back(name);
  if (names.empty()) {
    fail<ShardingError>(
        "there is no mesh axis '{}' here: collectives over named axes work inside of pmap and shard_map, and "
        "of "
        "vmap with an axis_name",
        axis);
  }
  fail<ShardingError>("there is no mesh axis '{}' here; the axes are ({})", axis, fmt::join(names, ", "));
}

}  // namespace

bool AxisEnv::has(const std::string& axis) const {
  return std::ranges::any_of(axes_, [&](const auto& entry) { return entry.first == axis; });
}

std::int64_t AxisEnv::size(const std::string& axis) const { return axes_[find(*this, axis)].second; }

std::int64_t AxisEnv::size(std::span<const std::string> axes) const {
  std::int64_t n = 1;
  for (const std::string& axis : axes) n *= size(axis);
  return n;
}

std::int64_t AxisEnv::num_positions() const {
  std::int64_t n = 1;
  for (const auto& [name, size] : axes_) n *= size;
  return n;
}

std::int64_t AxisEnv::stride(const std::string& axis) const {
  std::int64_t stride = 1;
  for (std::size_t i = find(*this, axis) + 1; i < axes_.size(); ++i) stride *= axes_[i].second;
  return stride;
}

std::vector<std::vector<int>> AxisEnv::groups(std::span<const std::string> axes) const {
  std::vector<int> offsets = {0};  // of a group's members from its first
  for (const std::string& axis : axes) {
    std::vector<int> next;
    for (int offset : offsets) {
      for (std::int64_t i = 0; i < size(axis); ++i)
        next.push_back(offset + static_cast<int>(i * stride(axis)));
    }
    offsets = std::move(next);
  }
  std::vector<std::vector<int>> groups;
  for (int position = 0; position < num_positions(); ++position) {
    bool first = std::ranges::all_of(
        axes, [&](const std::string& axis) { return position / stride(axis) % size(axis) == 0; });
    if (!first) continue;
    std::vector<int>& group = groups.emplace_back();
    for (int offset : offsets) group.push_back(position + offset);
  }
  return groups;
}

AxisEnv AxisEnv::with_mapped(const std::string& axis, std::int64_t size) const {
  AxisEnv env = *this;
  std::erase_if(env.axes_, [&](const auto& entry) { return entry.first == axis; });
  env.axes_.emplace_back(axis, size);
  if (!env.is_mapped(axis)) env.mapped_.push_back(axis);
  return env;
}

bool AxisEnv::is_mapped(const std::string& axis) const {
  return std::ranges::find(mapped_, axis) != mapped_.end();
}

AxisEnv AxisEnv::without_mapped() const {
  AxisEnv env(axes_);
  std::erase_if(env.axes_, [this](const auto& entry) { return is_mapped(entry.first); });
  return env;
}

const AxisEnv& AxisEnv::current() { return current_env; }

AxisEnvScope::AxisEnvScope(AxisEnv env) : saved_(std::move(current_env)) { current_env = std::move(env); }

AxisEnvScope::~AxisEnvScope() { current_env = std::move(saved_); }

}  // namespace lockstep
