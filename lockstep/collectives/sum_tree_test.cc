// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/sum_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <string>
#include <vector>

#include "lockstep/base/dtype.h"
#include "lockstep/collectives/reduce.h"

namespace lockstep::collectives {
namespace {

/// The definition: "((0 1) 2)".
std::string tree_of(int begin, int size) {
  if (size == 1) return std::to_string(begin);
  const int left = static_cast<int>(std::bit_ceil(static_cast<unsigned>(size)) / 2);
  return "(" + tree_of(begin, left) + " " + tree_of(begin + left, size - left) + ")";
}

std::string text_of(const std::vector<Block>& blocks) {
  const SumTree tree(blocks);
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    kept.push_back(tree_of(blocks[i].begin, blocks[i].size));
    for (int merges = tree.merges(static_cast<int>(i)); merges > 0; --merges) {
      const std::string right = kept.back();
      kept.pop_back();
      kept.back() = "(" + kept.back() + " " + right + ")";
    }
    EXPECT_LE(kept.size(), tree.depth());
  }
  EXPECT_EQ(kept.size(), 1u);
  return kept[0];
}

TEST(SumTree, IsTheSameForEveryDistributionOverHosts) {
  EXPECT_EQ(tree_of(0, 7), "(((0 1) (2 3)) ((4 5) 6))");
  std::mt19937 random(3);
  for (int n = 1; n <= 40; ++n) {
    std::vector<Block> singles;
    for (int i = 0; i < n; ++i) singles.push_back({i, 1});
    ASSERT_EQ(text_of(singles), tree_of(0, n));
    for (int round = 0; round < 30; ++round) {
      // The members are on up to 4 hosts, in runs or at random.
      std::vector<std::vector<int>> hosts(4);
      const unsigned run = 1 + random() % 8;
      std::size_t host = 0;
      for (int i = 0; i < n; ++i) {
        if (static_cast<unsigned>(i) % run == 0) host = round % 2 != 0 ? (host + 1) % 4 : random() % 4;
        hosts[host].push_back(i);
      }
      std::vector<Block> all;
      for (const std::vector<int>& positions : hosts) {
        int count = 0;
        for (const Block& block : blocks_of(positions, n)) {
          all.push_back(block);
          count += block.size;
        }
        ASSERT_EQ(count, static_cast<int>(positions.size()));
      }
      std::ranges::sort(all, {}, &Block::begin);
      ASSERT_EQ(text_of(all), tree_of(0, n)) << n << " members in runs of " << run;
    }
  }
}

TEST(SumTree, MembersOfAWholeSubtree_FormOneBlock) {
  EXPECT_EQ(blocks_of({4, 5, 6, 7}, 8).size(), 1u);
  EXPECT_EQ(blocks_of({4, 5, 6}, 7).size(), 1u);
  EXPECT_EQ(blocks_of({2, 3, 4, 5}, 8).size(), 2u);
  EXPECT_EQ(blocks_of({0, 2, 4, 6}, 8).size(), 4u);
}

/// In the order of the tree, on numbers where each order gives others.
TEST(SumTree, ReducesInTheTreesOrder_WholeOrInPartsToTheSameBits) {
  constexpr std::size_t kCount = 1300;
  std::mt19937_64 random(11);
  for (const int n : {1, 2, 3, 5, 8, 13, 70}) {
    std::vector<std::vector<float>> inputs(static_cast<std::size_t>(n));
    for (auto& input : inputs)
      for (std::size_t i = 0; i < kCount; ++i)
        input.push_back(std::uniform_real_distribution<float>(-1, 1)(random));
    const auto expected = [&](auto self, int begin, int size, std::size_t at) -> float {
      if (size == 1) return inputs[static_cast<std::size_t>(begin)][at];
      const int left = static_cast<int>(std::bit_ceil(static_cast<unsigned>(size)) / 2);
      return self(self, begin, left, at) + self(self, begin + left, size - left, at);
    };
    std::vector<Term> terms;
    for (const auto& input : inputs) terms.push_back({input.data()});
    const SumTree tree(n);
    std::vector<float> out(kCount), copy(kCount);
    reduce(ReduceOp::kSum, DType::kF32, {terms.data(), n, &tree}, kCount, {out.data(), copy.data()});
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(out[i], expected(expected, 0, n, i)) << n;
    EXPECT_EQ(out, copy);
    // Two hosts with every second pair.
    std::vector<int> positions[2];
    for (int i = 0; i < n; ++i) positions[i / 2 % 2].push_back(i);
    std::vector<Block> blocks;
    std::vector<std::vector<float>> partial;
    for (const auto& own : positions)
      for (const Block& block : blocks_of(own, n)) {
        const SumTree within(block.size);
        partial.emplace_back(kCount);
        reduce(ReduceOp::kSum, DType::kF32, {terms.data() + block.begin, block.size, &within}, kCount,
               {partial.back().data()});
        blocks.push_back(block);
      }
    std::vector<std::size_t> order(blocks.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::sort(order, {}, [&](std::size_t i) { return blocks[i].begin; });
    std::vector<Block> sorted;
    std::vector<Term> parts;
    for (const std::size_t i : order) {
      sorted.push_back(blocks[i]);
      parts.push_back({partial[i].data(), true});
    }
    const SumTree between(sorted);
    std::vector<float> again(kCount);
    reduce(ReduceOp::kSum, DType::kF32, {parts.data(), static_cast<int>(parts.size()), &between}, kCount,
           {again.data()});
    EXPECT_EQ(again, out) << n;
  }
}

}  // namespace
}  // namespace lockstep::collectives
