// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/tiles.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "lockstep/testing/random.h"

namespace lockstep::checkpoint {
namespace {

struct Case {
  Shape shape;
  std::size_t element;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{{{}, 4},
                                     {{1}, 1},
                                     {{0, 5}, 4},
                                     {{7}, 8},
                                     {{1024, 1024}, 4},
                                     {{1000, 333}, 2},
                                     {{8, 131072}, 4},
                                     {{3, 5'000'000}, 4},
                                     {{1, 1, 4'000'001}, 8},
                                     {{16, 16, 64, 64}, 4},
                                     {{100'000, 3}, 4},
                                     {{2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, 8}};
  return all;
}

TEST(Tiles, UnitsAndTiles_CoverEveryPartOnceInMemoryOrder) {
  for (const auto& [shape, element] : cases()) {
    const Shape tile = choose_tile(shape, element);
    std::size_t at = 0, tiles = 0;
    std::int64_t elements = 0;
    for_each_unit(shape, tile, element, [&](const Unit& unit) {
      EXPECT_EQ(unit.offset, at);
      EXPECT_EQ(unit.first_tile, tiles);
      int stretches = 0;
      for_each_stretch(unit.box, whole(shape), unit.box, element,
                       [&](std::size_t from, std::size_t to, std::size_t bytes) {
                         ++stretches;
                         EXPECT_EQ(from, unit.offset);
                         EXPECT_EQ(to, 0u);
                         EXPECT_EQ(bytes, unit.bytes);
                       });
      EXPECT_EQ(stretches, 1) << lockstep::to_string(shape);
      EXPECT_LE(unit.bytes, std::size_t{16} << 20) << lockstep::to_string(shape);
      for (const Box& each : unit.tiles) {
        EXPECT_TRUE(contains(unit.box, each));
        elements += volume(each);
      }
      at += unit.bytes;
      tiles += unit.tiles.size();
      return true;
    });
    EXPECT_EQ(elements, num_elements(shape)) << lockstep::to_string(shape);
    EXPECT_EQ(tiles, num_tiles(shape, tile)) << lockstep::to_string(shape);
  }
}

TEST(Tiles, ASizeThatEightDevicesDivide_HasTilesThatDivideTheirParts) {
  for (const Shape& shape : {Shape{1024, 1024}, Shape{8, 131072}, Shape{64, 64, 256}}) {
    const Shape tile = choose_tile(shape, 4);
    EXPECT_EQ(num_elements(shape) * 4 / (1 << 20), 4);
    EXPECT_EQ((shape[0] / 8) % tile[0], 0) << lockstep::to_string(tile);
    EXPECT_EQ((shape[1] / 8) % tile[1], 0) << lockstep::to_string(tile);
  }
}

TEST(Tiles, AChecksum_DependsOnItsOwnElementsOnly) {
  const Shape shape{512, 256};
  const Shape tile = choose_tile(shape, 4);
  ASSERT_GT(num_tiles(shape, tile), 1u);
  std::vector<std::byte> memory(512 * 256 * 4);
  for_each_unit(shape, tile, 4, [&](const Unit& unit) {
    for (std::size_t changed = 0; changed < unit.tiles.size(); ++changed) {
      std::vector<std::string> before, after;
      for (const Box& each : unit.tiles)
        before.push_back(tile_sum(each, unit.box, memory.data() + unit.offset, 4));
      std::size_t last = 0;
      for_each_stretch(unit.tiles[changed], whole(shape), unit.tiles[changed], 4,
                       [&](std::size_t from, std::size_t, std::size_t bytes) { last = from + bytes - 1; });
      memory[last] ^= std::byte{1};
      for (const Box& each : unit.tiles)
        after.push_back(tile_sum(each, unit.box, memory.data() + unit.offset, 4));
      for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(before[i] != after[i], i == changed);
    }
    return true;
  });
}

TEST(Box, ACopyBetweenRandomBoxes_CopiesEachCommonElement) {
  testing::Random random;
  for (int round = 0; round < 300; ++round) {
    const int rank = random.below(4);
    Box from, to;
    Shape shape;
    for (int d = 0; d < rank; ++d) {
      const int size = 1 + random.below(6);
      shape.push_back(size);
      auto range = [&] {
        const int start = random.below(size);
        return IndexRange{start, start + 1 + random.below(size - start)};
      };
      from.push_back(range());
      to.push_back(range());
    }
    const auto count = static_cast<std::size_t>(num_elements(shape));
    std::vector<std::int32_t> all(count);
    std::iota(all.begin(), all.end(), 1);
    auto bytes = [](std::vector<std::int32_t>& v) { return reinterpret_cast<std::byte*>(v.data()); };
    std::vector<std::int32_t> source(static_cast<std::size_t>(volume(from)));
    std::vector<std::int32_t> target(static_cast<std::size_t>(volume(to)));
    copy_common(whole(shape), bytes(all), from, bytes(source), 4);
    copy_common(from, bytes(source), to, bytes(target), 4);
    std::size_t i = 0;
    std::vector<std::int64_t> at;
    for (const IndexRange& range : to) at.push_back(range.start);
    for (std::int32_t value : target) {
      std::int64_t number = 0;
      bool in_both = true;
      for (int d = 0; d < rank; ++d) {
        number = number * shape[d] + at[d];
        in_both = in_both && at[d] >= from[d].start && at[d] < from[d].limit;
      }
      EXPECT_EQ(value, in_both ? number + 1 : 0) << to_string(from) << " to " << to_string(to) << " at " << i;
      ++i;
      for (int d = rank; d-- > 0;) {
        if (++at[d] < to[d].limit) break;
        at[d] = to[d].start;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
