// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/json.h"

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

/// Gives out what is held, and adds it to the loads.
std::vector<std::vector<Piece>> give_out(std::vector<Held> alone, std::vector<Held> shared, Loads& loads) {
  std::vector<std::vector<Piece>> of_process(loads.size());
  auto give = [&](int process, std::size_t leaf, Box box, std::uint64_t bytes) {
    of_process[static_cast<std::size_t>(process)].push_back({leaf, std::move(box)});
    loads[static_cast<std::size_t>(process)] += bytes;
  };
  for (Held& held : alone) give(held.by.front(), held.leaf, std::move(held.box), held.bytes);
  std::ranges::stable_sort(shared, std::greater(), &Held::bytes);
  auto least = [&](const std::vector<int>& among) {
    return *std::ranges::min_element(among, {}, [&](int i) { return loads[static_cast<std::size_t>(i)]; });
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
  return of_process;
}

Held whole_of(std::span<const Leaf> leaves, std::size_t i, std::vector<int> by) {
  const Array& array = leaves[i].array;
  return {i, whole(array.shape()), std::move(by), static_cast<std::uint64_t>(array.aval().bytes())};
}

int owner_of(const Array& array) {
  int owner = kSpread;
  for (const Device& device : array.sharding().devices()) {
    if (owner != kSpread && device.process_index() != owner) return kSpread;
    owner = device.process_index();
  }
  return owner;
}

}  // namespace

std::vector<int> owners_of(std::span<const Leaf> leaves) {
  std::vector<int> owners;
  for (const Leaf& leaf : leaves) owners.push_back(owner_of(leaf.array));
  return owners;
}

std::string describe_tree(std::span<const Leaf> leaves, const std::vector<int>& owners) {
  Fingerprint tree = 0;
  nlohmann::json owned = nlohmann::json::object();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const Array& array = leaves[i].array;
    tree = combine(tree, fingerprint(leaves[i].path));
    tree = combine(tree, fingerprint(lockstep::to_string(array.aval())));
    if (owners[i] != kSpread)
      owned[std::to_string(i)] = owners[i];
    else
      tree = combine(tree, array.sharding().fingerprint());
  }
  return json_text(nlohmann::json{{"tree", tree}, {"owners", std::move(owned)}});
}

std::vector<Place> places_of(std::span<const Leaf> leaves, const std::vector<std::string>& described,
                             const std::string& what) {
  std::vector<nlohmann::json> all;
  for (const std::string& text : described) all.push_back(parse_json(text));
  const auto who = [&](std::size_t process) { return fmt::format("process {} of {}", process, all.size()); };
  const auto fail_other = [&](std::size_t process) {
    fail<CheckpointError>(
        "[checkpoint] {}: {} saves a different tree than process 0: paths, shapes or shardings differ; save "
        "the same on all processes",
        what, who(process));
  };
  for (std::size_t process = 1; process < all.size(); ++process)
    if (all[process].at("tree") != all[0].at("tree")) fail_other(process);
  std::vector<Place> places(leaves.size(), Place::kSpread);
  for (const auto& [leaf, owner] : all[0].at("owners").items()) {
    bool each = true, one = true;
    for (std::size_t process = 0; process < all.size(); ++process) {
      const int said = all[process].at("owners").value(leaf, kSpread);
      each &= said == static_cast<int>(process);
      one &= said == owner;
      if (each || one) continue;
      fail<CheckpointError>(
          "[checkpoint] {}: {} is on devices of process {} according to process 0, and on those of process "
          "{} according to {}; save the same on all processes",
          what, leaves[std::stoul(leaf)].path, owner.get<int>(), said, who(process));
    }
    places[std::stoul(leaf)] = one ? Place::kOne : Place::kEach;
  }
  return places;
}

std::vector<std::vector<Piece>> plan_spread(std::span<const Leaf> leaves, const std::vector<int>& owners,
                                            Loads& loads) {
  std::vector<Held> shared, alone;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const Array& array = leaves[i].array;
    if (loads.size() > 1 && owners[i] != kSpread) continue;
    // Boxes of the same processes are merged, and written by one of them.
    std::map<std::string, std::pair<Box, std::set<int>>> holders;
    const auto indices = array.sharding().device_indices(array.shape());
    for (std::size_t d = 0; d < indices.size(); ++d) {
      auto& [box, by] = holders[to_string(indices[d])];
      box = indices[d];
      by.insert(array.sharding().devices()[d].process_index());
    }
    std::map<std::set<int>, std::vector<Box>> of;
    for (auto& [text, held] : holders) of[held.second].push_back(held.first);
    for (auto& [by, boxes] : of) {
      for (const Box& box : merged(std::move(boxes))) {
        Held held{
            i, box, {by.begin(), by.end()}, static_cast<std::uint64_t>(volume(box)) * size_of(array.dtype())};
        (by.size() == 1 ? alone : shared).push_back(std::move(held));
      }
    }
  }
  return give_out(std::move(alone), std::move(shared), loads);
}

std::vector<std::vector<Piece>> plan_others(std::span<const Leaf> leaves, const std::vector<int>& owners,
                                            const std::vector<Place>& places, Loads& loads) {
  std::vector<int> everybody(loads.size());
  std::iota(everybody.begin(), everybody.end(), 0);
  std::vector<Held> shared, alone;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (places[i] == Place::kOne) alone.push_back(whole_of(leaves, i, {owners[i]}));
    if (places[i] == Place::kEach) shared.push_back(whole_of(leaves, i, everybody));
  }
  return give_out(std::move(alone), std::move(shared), loads);
}

}  // namespace lockstep::checkpoint
