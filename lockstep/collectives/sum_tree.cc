// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/sum_tree.h"

#include <algorithm>
#include <bit>

namespace lockstep::collectives {
namespace {

std::vector<Block> singles(int n) {
  std::vector<Block> blocks;
  for (int i = 0; i < n; ++i) blocks.push_back({i, 1});
  return blocks;
}

void add_blocks(const std::vector<int>& positions, Block node, std::vector<Block>& to) {
  const auto first = std::ranges::lower_bound(positions, node.begin);
  const auto count = std::ranges::lower_bound(positions, node.begin + node.size) - first;
  if (count == 0) return;
  if (count == node.size) return to.push_back(node);
  const int left = static_cast<int>(std::bit_ceil(static_cast<unsigned>(node.size)) / 2);
  add_blocks(positions, {node.begin, left}, to);
  add_blocks(positions, {node.begin + left, node.size - left}, to);
}

std::vector<Block> in_order(const HostBlocks& of) {
  std::vector<Block> blocks;
  for (const HostBlocks::Source& source : of.sources)
    blocks.push_back(
        of.blocks[static_cast<std::size_t>(source.host)][static_cast<std::size_t>(source.block)]);
  return blocks;
}

}  // namespace

std::vector<Block> blocks_of(const std::vector<int>& positions, int n) {
  std::vector<Block> blocks;
  add_blocks(positions, {0, n}, blocks);
  return blocks;
}

SumTree::SumTree(int n) : SumTree(singles(n)) {}

SumTree::SumTree(const std::vector<Block>& blocks) {
  std::vector<Block> kept;
  // The two are the halves of a node that has a power of two members.
  const auto are_halves = [](const Block& left, const Block& right) {
    return left.size == right.size && std::has_single_bit(static_cast<unsigned>(left.size)) &&
           left.begin % (2 * left.size) == 0;
  };
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    kept.push_back(blocks[i]);
    int merges = 0;
    const bool last = i + 1 == blocks.size();
    // After the last block, what is left are the nodes on the way to the end, the largest first.
    while (kept.size() > 1 && (last || are_halves(kept[kept.size() - 2], kept.back()))) {
      const Block right = kept.back();
      kept.pop_back();
      kept.back().size += right.size;
      ++merges;
    }
    merges_.push_back(merges);
    depth_ = std::max(depth_, kept.size());
  }
}

HostBlocks::HostBlocks(const std::vector<std::vector<int>>& hosts, int n) : tree(1) {
  for (const std::vector<int>& positions : hosts) {
    before.push_back(static_cast<int>(sources.size()));
    blocks.push_back(blocks_of(positions, n));
    for (int block = 0; block < static_cast<int>(blocks.back().size()); ++block)
      sources.push_back({static_cast<int>(blocks.size()) - 1, block});
  }
  std::ranges::sort(sources, {}, [&](const Source& source) {
    return blocks[static_cast<std::size_t>(source.host)][static_cast<std::size_t>(source.block)].begin;
  });
  tree = SumTree(in_order(*this));
}

}  // namespace lockstep::collectives
