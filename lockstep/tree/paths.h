// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/function.h"
#include "lockstep/tree/leaves.h"

/// Arrays of a tree with their paths (path.h).
namespace lockstep::tree {

namespace internal {
void call_with_paths(TreeRef tree, bool changes, const std::function<void(const std::string&, Array&)>& f);
std::vector<std::pair<std::string, Array>> leaves_with_path(TreeRef tree);
std::vector<std::string> paths(TreeRef tree);
}  // namespace internal

/// Calls f(path, array) for each array of the tree, in order. f may change the arrays if the tree is not
/// const.
template <class Tree, class F>
void for_each_leaf_with_path(Tree& tree, F&& f) {
  using Leaf = std::conditional_t<std::is_const_v<Tree>, const Array&, Array&>;
  internal::call_with_paths(
      tree_ref(tree), !std::is_const_v<Tree>,
      [&](const std::string& path, Array& array) { f(path, static_cast<Leaf>(array)); });
}

/// The arrays of the tree, in order, each with its path.
template <class Tree>
std::vector<std::pair<std::string, Array>> leaves_with_path(const Tree& tree) {
  return internal::leaves_with_path(tree_ref(tree));
}

/// The paths of the arrays of the tree, in order.
template <class Tree>
std::vector<std::string> paths(const Tree& tree) {
  return internal::paths(tree_ref(tree));
}

}  // namespace lockstep::tree
