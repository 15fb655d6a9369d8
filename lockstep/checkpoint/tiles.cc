// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/tiles.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <memory>

namespace lockstep::checkpoint {
namespace {

constexpr std::size_t kMost = 16 << 20;
constexpr int kCuts = 8;

/// No part has many more than a thousand tiles, unless they are of a megabyte.
std::size_t least_tile(std::size_t bytes) { return std::clamp<std::size_t>(bytes / 1024, 4 << 10, 1 << 20); }

std::int64_t cuts(std::int64_t size, std::int64_t tile) { return tile == 0 ? 0 : (size + tile - 1) / tile; }

std::size_t bytes_of(const Shape& shape, std::size_t element) {
  return static_cast<std::size_t>(num_elements(shape)) * element;
}

}  // namespace

Shape choose_tile(const Shape& shape, std::size_t element) {
  Shape tile = shape;
  if (num_elements(shape) == 0) return tile;
  std::vector<std::size_t> below(shape.size());  // bytes of one row of the dimension
  const std::size_t least = least_tile(bytes_of(shape, element));
  std::size_t size = element;
  for (std::size_t d = shape.size(); d-- > 0; size *= static_cast<std::size_t>(shape[d])) below[d] = size;
  for (std::size_t d = 0, unit = 0; d < shape.size(); ++d) {
    auto halve = [&] {
      if (tile[d] % 2 != 0 || bytes_of(tile, element) / 2 < least) return false;
      tile[d] /= 2;
      return true;
    };
    const bool is_unit = unit == 0 && (below[d] <= kMost || d + 1 == shape.size());
    if (unit == 0 && !is_unit) {
      tile[d] = 1;
      continue;
    }
    for (int i = 1; i < kCuts && halve(); i *= 2) {
    }
    if (!is_unit) continue;
    unit = 1;
    while (static_cast<std::size_t>(tile[d]) * below[d] > kMost && tile[d] > 1) tile[d] = (tile[d] + 1) / 2;
  }
  return tile;
}

void for_each_unit(const Shape& shape, const Shape& tile, std::size_t element,
                   const std::function<bool(const Unit&)>& visit) {
  if (num_elements(shape) == 0) return;
  const std::size_t rank = shape.size();
  // Dimensions before `split` have tiles of one row; those after it are whole in a unit.
  std::size_t split = 0;
  while (split + 1 < rank && tile[split] == 1) ++split;
  Unit unit;
  std::vector<std::int64_t> at(rank, 0);
  for (;;) {
    unit.box = whole(shape);
    for (std::size_t d = 0; d <= split && d < rank; ++d)
      unit.box[d] = {at[d], std::min(shape[d], at[d] + tile[d])};
    unit.bytes = bytes_of(shape_of(unit.box), element);
    unit.tiles.clear();
    Box one = unit.box;
    std::vector<std::int64_t> inner(rank, 0);
    for (bool more = true; more;) {
      for (std::size_t d = split + 1; d < rank; ++d)
        one[d] = {inner[d], std::min(shape[d], inner[d] + tile[d])};
      unit.tiles.push_back(one);
      more = false;
      for (std::size_t d = rank; d-- > split + 1;) {
        inner[d] += tile[d];
        if (inner[d] < shape[d]) {
          more = true;
          break;
        }
        inner[d] = 0;
      }
    }
    if (!visit(unit)) return;
    unit.offset += unit.bytes;
    unit.first_tile += unit.tiles.size();
    if (rank == 0) return;
    std::size_t d = split;
    for (;; --d) {
      at[d] += tile[d];
      if (at[d] < shape[d]) break;
      at[d] = 0;
      if (d == 0) return;
    }
  }
}

std::size_t num_tiles(const Shape& shape, const Shape& tile) {
  if (num_elements(shape) == 0) return 0;
  std::size_t count = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) count *= static_cast<std::size_t>(cuts(shape[d], tile[d]));
  return count;
}

std::string tile_sum(const Box& tile, const Box& unit, const std::byte* memory, std::size_t element) {
  thread_local const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                                    &XXH3_freeState);
  XXH3_128bits_reset(state.get());
  for_each_stretch(tile, unit, tile, element, [&](std::size_t from, std::size_t, std::size_t bytes) {
    XXH3_128bits_update(state.get(), memory + from, bytes);
  });
  const XXH128_hash_t sum = XXH3_128bits_digest(state.get());
  return fmt::format("{:016x}{:016x}", sum.high64, sum.low64);
}

}  // namespace lockstep::checkpoint
