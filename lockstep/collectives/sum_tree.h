// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

/// One order of a sum over the members of a group, which depends on their positions only. In the tree of n
/// members, the left half has the largest power of two below n, and the right half the others.
namespace lockstep::collectives {

/// Members one after the other whose sum is a node of the tree.
struct Block {
  int begin, size;
};

/// The fewest nodes of the tree of `n` members that together have exactly these positions, which ascend.
std::vector<Block> blocks_of(const std::vector<int>& positions, int n);

/// How sums of blocks are combined: they are taken one after the other, and some of the sums that are not yet
/// combined are combined after each.
class SumTree {
 public:
  /// The tree of n members.
  explicit SumTree(int n);

  /// The tree of blocks that together are the members of a group, in ascending order.
  explicit SumTree(const std::vector<Block>& blocks);

  /// How many times the last two sums become one after source number `source` was taken.
  int merges(int source) const { return merges_[static_cast<std::size_t>(source)]; }

  /// The largest number of sums that are kept when a source was taken and combined.
  std::size_t depth() const { return depth_; }

 private:
  std::vector<int> merges_;
  std::size_t depth_ = 0;
};

/// The blocks of a group's members on each host, which sum them before the hosts do.
struct HostBlocks {
  /// `hosts`: the positions of each host's members, ascending, of `n` in all.
  HostBlocks(const std::vector<std::vector<int>>& hosts, int n);

  struct Source {
    int host, block;  ///< of the host
  };

  std::vector<std::vector<Block>> blocks;  ///< by host
  std::vector<int> before;                 ///< for each host the number of blocks on the hosts before it
  std::vector<Source> sources;             ///< all blocks, in the order of their positions
  SumTree tree;                            ///< of the sources
};

}  // namespace lockstep::collectives
