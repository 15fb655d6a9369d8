// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/tree/paths.h"

namespace lockstep::tree {

namespace internal {

/// The texts that distinguish trees of one type, one entry for each difference.
std::vector<std::string> telling(TreeRef tree);

/// Throws ShapeError unless both trees have arrays at the same paths.
void check_same_places(std::string_view operation, TreeRef a, TreeRef b);

/// Makes the tree's arrays empty, and counts them.
std::size_t empty_leaves(TreeRef tree);

/// The paths of the arrays, in order: "(layers[0].w, layers[0].b)".
std::string paths_text(TreeRef tree);

}  // namespace internal

/// A tree without its arrays: containers, keys, numbers. Two structures are equal if their trees can differ
/// only in the arrays.
template <class Tree>
class Structure {
 public:
  explicit Structure(Tree tree)
      : exemplar_(std::move(tree)), num_leaves_(internal::empty_leaves(tree_ref(exemplar_))) {}

  std::size_t num_leaves() const { return num_leaves_; }

  /// The tree, with Arrays without a value.
  const Tree& exemplar() const { return exemplar_; }

  /// The paths of the arrays, in order: "(layers[0].w, layers[0].b)".
  std::string to_string() const { return internal::paths_text(tree_ref(exemplar_)); }

  bool operator==(const Structure& other) const {
    return internal::telling(tree_ref(exemplar_)) == internal::telling(tree_ref(other.exemplar_));
  }

 private:
  Tree exemplar_;
  std::size_t num_leaves_;
};

template <class Tree>
Structure<Tree> structure(const Tree& tree) {
  return Structure<Tree>(tree);
}

}  // namespace lockstep::tree
