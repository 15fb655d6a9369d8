// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/tree/tree_type.h"

namespace lockstep::tree {

namespace internal {
template <class F>
struct LeafFunction final : Visitor {
  F& f;
  LeafFunction(bool changes, F& f) : Visitor(changes), f(f) {}
  void leaf(Array& array) override { f(array); }
};
}  // namespace internal

/// Calls f(array) for each array of the tree, in order. f may change the arrays if the tree is not const.
template <class Tree, class F>
void for_each_leaf(Tree& tree, F&& f) {
  using Leaf = std::conditional_t<std::is_const_v<Tree>, const Array&, Array&>;
  auto given = [&f](Array& array) { f(static_cast<Leaf>(array)); };
  internal::LeafFunction<decltype(given)> visitor(!std::is_const_v<Tree>, given);
  const TreeRef all = tree_ref(tree);
  all.type->visit(all.tree, visitor);
}

/// The arrays of the tree, in order.
template <class Tree>
std::vector<Array> leaves(const Tree& tree) {
  return tree_ref(tree).leaves();
}

/// Replaces the tree's arrays by these, in order; the numbers must be equal.
template <class Tree, class Iterator>
void replace_leaves(Tree& tree, Iterator& next) {
  for_each_leaf(tree, [&](Array& array) { array = *next++; });
}

}  // namespace lockstep::tree
