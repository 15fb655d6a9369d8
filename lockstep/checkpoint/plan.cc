// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace lockstep::checkpoint {
namespace {

/// Smaller ones are not cut.
constexpr std::uint64_t kWorthCutting = 256 << 10;

struct Held {
  std::size_t leaf;
  Box box;
  std::vector<int> by;
  std::uint64_t bytes;
};

/// Boxes that touch along one dimension become one.
std::vector<Box> merged(std::vector<Box> boxes) {
  const std::size_t rank = boxes.empty() ? 0 : boxes.front().size();
  for (std::size_t d = rank; d-- > 0;) {
    std::ranges::sort(boxes, [&](const Box& a, const Box& b) {
      for (std::size_t e = 0; e < rank; ++e) {
        if (e != d && a[e] != b[e])
          return std::pair(a[e].start, a[e].limit) < std::pair(b[e].start, b[e].limit);
      }
      return a[d].start < b[d].start;
    });
    std::vector<Box> fewer;
    for (const Box& box : boxes) {
      bool joins = !fewer.empty() && fewer.back()[d].limit == box[d].start;
      for (std::size_t e = 0; e < rank && joins; ++e) joins = e == d || fewer.back()[e] == box[e];
      if (joins)
        fewer.back()[d].limit = box[d].limit;
      else
        fewer.push_back(box);
    }
    boxes = std::move(fewer);
  }
  return boxes;
}

/// Divides the box into `count` parts of about the same size, or fewer, along its first dimension that is
/// long enough, because parts along it are contiguous.
std::vector<Box> cut(const Box& box, std::int64_t count) {
  std::size_t along = 0;
  const Shape shape = shape_of(box);
  while (along < shape.size() && shape[along] < count) ++along;
  if (along == shape.size())
    along = static_cast<std::size_t>(std::ranges::max_element(shape) - shape.begin());
  count = std::min(count, shape[along]);
  std::vector<Box> parts;
  for (std::int64_t i = 0; i < count; ++i) {
    Box part = box;
    part[along] = {box[along].start + shape[along] * i / count,
                   box[along].start + shape[along] * (i + 1) / count};
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace

WritePlan plan_writes(std::span<const Leaf> leaves, int process_index, int num_processes) {
  WritePlan plan;
  plan.of_process.resize(static_cast<std::size_t>(num_processes));
  std::vector<int> everybody;
  for (int i = 0; i < num_processes; ++i) everybody.push_back(i);

  std::vector<Held> shared, alone;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const Array& array = leaves[i].array;
    const Sharding& sharding = array.sharding();
    plan.is_local.push_back(num_processes > 1 && sharding.is_fully_addressable(process_index));
    plan.fingerprint = combine(plan.fingerprint, fingerprint(leaves[i].path));
    plan.fingerprint = combine(plan.fingerprint, fingerprint(lockstep::to_string(array.aval())));
    const auto element = size_of(array.dtype());
    if (plan.is_local.back()) {
      const Box box = whole(array.shape());
      shared.push_back({i, box, everybody, static_cast<std::uint64_t>(volume(box)) * element});
      continue;
    }
    plan.fingerprint = combine(plan.fingerprint, sharding.fingerprint());
    // Boxes of the same processes are merged, and written by one of them.
    std::map<std::string, std::pair<Box, std::set<int>>> holders;
    const auto indices = sharding.device_indices(array.shape());
    for (std::size_t d = 0; d < indices.size(); ++d) {
      auto& [box, by] = holders[to_string(indices[d])];
      box = indices[d];
      by.insert(sharding.devices()[d].process_index());
    }
    std::map<std::set<int>, std::vector<Box>> of;
    for (auto& [text, held] : holders) of[held.second].push_back(held.first);
    for (auto& [by, boxes] : of) {
      for (const Box& box : merged(std::move(boxes))) {
        Held held{i, box, {by.begin(), by.end()}, static_cast<std::uint64_t>(volume(box)) * element};
        (by.size() == 1 ? alone : shared).push_back(std::move(held));
      }
    }
  }

  std::vector<std::uint64_t> load(static_cast<std::size_t>(num_processes));
  auto give = [&](int process, std::size_t leaf, Box box, std::uint64_t bytes) {
    plan.of_process[static_cast<std::size_t>(process)].push_back({leaf, std::move(box)});
    load[static_cast<std::size_t>(process)] += bytes;
  };
  for (Held& held : alone) give(held.by.front(), held.leaf, std::move(held.box), held.bytes);
  std::ranges::stable_sort(shared, std::greater(), &Held::bytes);
  auto least = [&](const std::vector<int>& among) {
    return *std::ranges::min_element(among, {}, [&](int i) { return load[static_cast<std::size_t>(i)]; });
  };
  for (Held& held : shared) {
    if (held.bytes < kWorthCutting) {
      give(least(held.by), held.leaf, std::move(held.box), held.bytes);
      continue;
    }
    std::vector<int> left = held.by;
    for (Box& box : cut(held.box, std::ssize(held.by))) {
      const int process = least(left);
      std::erase(left, process);
      const auto bytes =
          held.bytes / static_cast<std::uint64_t>(volume(held.box)) * static_cast<std::uint64_t>(volume(box));
      give(process, held.leaf, std::move(box), bytes);
    }
  }
  return plan;
}

}  // namespace lockstep::checkpoint
