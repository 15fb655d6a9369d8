// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::tokenizers {

/// Finds the keys with which a text begins.
class Trie {
 public:
  /// Of keys and values from 0 on. An empty key is never found; of equal keys the last counts.
  explicit Trie(std::vector<std::pair<std::string, std::int32_t>> keys);

  /// Calls found(size, value) for each key with which the text begins, from the shortest to the longest.
  template <class Found>
  void prefixes(std::string_view text, Found found) const {
    const Node* node = nodes_.data();
    for (std::size_t i = 0; i < text.size(); ++i) {
      node = child(*node, static_cast<unsigned char>(text[i]));
      if (node == nullptr) return;
      if (node->value >= 0) found(i + 1, node->value);
    }
  }

 private:
  struct Node {
    std::uint32_t children;  ///< the first one; the others follow it, in the order of their bytes
    std::int32_t value;      ///< of the key that ends here; -1 if none does
    std::uint16_t count;     ///< of children
    unsigned char byte;      ///< that leads here
  };

  const Node* child(const Node& node, unsigned char byte) const;

  std::vector<Node> nodes_;
};

}  // namespace lockstep::tokenizers
