// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/axis_env.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "lockstep/base/fail.h"

namespace lockstep::ir {
namespace {

thread_local AxisEnv current_env;

[[noreturn]] void fail_of_unknown(const AxisEnv& env, const std::string& axis) {
  std::vector<std::string> names;
  for (const auto& [name, size] : env.axes()) names.push_back(name);
  if (names.empty()) {
    fail<ShardingError>(
        "there is no mesh axis '{}' here: collectives over named axes work inside of pmap and shard_map, and "
        "of vmap with an axis_name",
        axis);
  }
  fail<ShardingError>("there is no mesh axis '{}' here; the axes are ({})", axis, fmt::join(names, ", "));
}

}  // namespace

AxisEnv::AxisEnv(std::vector<std::pair<std::string, std::int64_t>> axes) : axes_(std::move(axes)) {}

bool AxisEnv::has(const std::string& axis) const {
  return std::ranges::any_of(axes_, [&](const auto& entry) { return entry.first == axis; });
}

std::string AxisEnv::part_name(const std::string& axis, std::int64_t before, std::int64_t size) {
  return fmt::format("{}:({}){}", axis, before, size);
}

AxisEnv::Extent AxisEnv::extent(const std::string& axis) const {
  std::int64_t stride = 1;
  for (std::size_t i = axes_.size(); i-- > 0;) {
    const auto& [name, size] = axes_[i];
    if (name == axis) return {size, stride};
    stride *= size;
  }
  const std::size_t colon = axis.rfind(":(");
  if (colon == std::string::npos) fail_of_unknown(*this, axis);
  std::int64_t before = 0, size = 0;
  const char *numbers = axis.data() + colon + 2, *end = axis.data() + axis.size();
  const auto first = std::from_chars(numbers, end, before);
  if (first.ec == std::errc() && first.ptr != end) std::from_chars(first.ptr + 1, end, size);
  const Extent whole = extent(axis.substr(0, colon));
  if (before < 1 || size < 1 || whole.size % (before * size) != 0) fail_of_unknown(*this, axis);
  return {size, whole.stride * (whole.size / (before * size))};
}

std::int64_t AxisEnv::size(const std::string& axis) const { return extent(axis).size; }

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

std::int64_t AxisEnv::stride(const std::string& axis) const { return extent(axis).stride; }

std::vector<std::vector<int>> AxisEnv::groups(std::span<const std::string> axes) const {
  std::vector<int> offsets = {0};  // of a group's members from its first
  std::vector<Extent> extents;
  for (const std::string& axis : axes) {
    const Extent& along = extents.emplace_back(extent(axis));
    std::vector<int> next;
    for (int offset : offsets) {
      for (std::int64_t i = 0; i < along.size; ++i)
        next.push_back(offset + static_cast<int>(i * along.stride));
    }
    offsets = std::move(next);
  }
  std::vector<std::vector<int>> groups;
  for (int position = 0; position < num_positions(); ++position) {
    const bool first = std::ranges::all_of(
        extents, [&](const Extent& along) { return position / along.stride % along.size == 0; });
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

}  // namespace lockstep::ir
