#pragma once

#include <cstddef>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/tree/leaves.h"
#include "lockstep/tree/paths.h"
#include "lockstep/tree/per_leaf.h"
#include "lockstep/tree/structure.h"

/// Operations on whole trees (visit.h says what a tree is), with jax.tree's names.
namespace lockstep::tree {

namespace internal {
/// Throws ShapeError if the number of arrays is not that of the structure.
void check_count(std::size_t places, std::size_t arrays);
}  // namespace internal

/// The tree of f(leaf) for each leaf, or of f(leaf, other leaf...) for the leaves of trees with the same
/// structure. Throws ShapeError if one tree has an array that another one does not have, with the first such
/// path.
template <class F, class Tree, class... Trees>
Tree map(F&& f, const Tree& tree, const Trees&... others) {
  (internal::check_same_places("map", tree_ref(tree), tree_ref(others)), ...);
  const std::vector<Array> lists[] = {leaves(tree), leaves(others)...};
  std::vector<Array> results;
  results.reserve(lists[0].size());
  auto call = [&]<std::size_t... k>(std::size_t i, std::index_sequence<k...>) { return f(lists[k][i]...); };
  for (std::size_t i = 0; i < lists[0].size(); ++i)
    results.push_back(call(i, std::make_index_sequence<sizeof...(others) + 1>()));
  Tree result = tree;
  tree_ref(result).replace_leaves(results);
  return result;
}

/// The same with the leaf's path as f's first argument.
template <class F, class Tree, class... Trees>
Tree map_with_path(F&& f, const Tree& tree, const Trees&... others) {
  const std::vector<std::string> names = paths(tree);
  std::size_t i = 0;
  return map([&](const auto&... each) { return f(names[i++], each...); }, tree, others...);
}

/// The arrays of the tree, and its structure without them.
template <class Tree>
std::pair<std::vector<Array>, Structure<Tree>> flatten(const Tree& tree) {
  return {leaves(tree), structure(tree)};
}

/// The tree of this structure with these arrays. Throws ShapeError if the number of arrays does not match.
template <class Tree>
Tree unflatten(const Structure<Tree>& structure, const std::vector<Array>& arrays) {
  internal::check_count(structure.num_leaves(), arrays.size());
  Tree tree = structure.exemplar();
  tree_ref(tree).replace_leaves(arrays);
  return tree;
}

/// f(f(f(initial, leaf), leaf), ...) over the leaves in order.
template <class F, class Tree, class T>
T reduce(F&& f, const Tree& tree, T initial) {
  for_each_leaf(tree, [&](const Array& leaf) { initial = f(std::move(initial), leaf); });
  return initial;
}

}  // namespace lockstep::tree
