// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tokenizers/trie.h"

#include <algorithm>

#include "lockstep/base/fail.h"

namespace lockstep::tokenizers {

Trie::Trie(std::vector<std::pair<std::string, std::int32_t>> keys) {
  std::stable_sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  struct Range {  // of the keys that share the first bytes, which lead to a node
    std::size_t begin, end, depth;
  };
  std::vector<Range> ranges = {{0, keys.size(), 0}};
  nodes_.push_back({0, -1, 0, 0});
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    auto [begin, end, depth] = ranges[i];
    for (; begin < end && keys[begin].first.size() == depth; ++begin)
      if (depth > 0) nodes_[i].value = keys[begin].second;
    if (nodes_.size() > UINT32_MAX - 256)
      fail<DataError>("[tokenizers] the vocabulary has too many characters");
    nodes_[i].children = static_cast<std::uint32_t>(nodes_.size());
    while (begin < end) {
      const char byte = keys[begin].first[depth];
      std::size_t next = begin + 1;
      while (next < end && keys[next].first[depth] == byte) ++next;
      nodes_.push_back({0, -1, 0, static_cast<unsigned char>(byte)});
      ranges.push_back({begin, next, depth + 1});
      ++nodes_[i].count;
      begin = next;
    }
  }
}

const Trie::Node* Trie::child(const Node& node, unsigned char byte) const {
  const Node* const begin = nodes_.data() + node.children;
  const Node* const end = begin + node.count;
  const Node* const found =
      std::lower_bound(begin, end, byte, [](const Node& a, unsigned char b) { return a.byte < b; });
  return found != end && found->byte == byte ? found : nullptr;
}

}  // namespace lockstep::tokenizers
