// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/function_address.h"
#include "lockstep/tree/leaves.h"
#include "lockstep/tree/paths.h"
#include "lockstep/tree/per_leaf.h"
#include "lockstep/tree/structure.h"

/// Operations on whole trees (visit.h says what a tree is), with jax.tree's names.
namespace lockstep::tree {

namespace internal {
/// Throws ShapeError if the number of arrays is not that of the structure.
void check_count(std::size_t places, std::size_t arrays);

/// A function of arrays in the same place of several trees, and of this place's path, which may be ignored.
struct MapFunction {
  void* function;
  Array (*call)(void* function, const std::string& path, const Array* const* arrays);
};

/// Replaces the arrays of `result`, a copy of the first tree, by those that the function returns. Paths are
/// empty unless `with_paths`.
void map_into(TreeRef result, std::span<const TreeRef> trees, const MapFunction& function, bool with_paths);

template <class F, bool with_path, class Index>
struct MapCall;
template <class F, bool with_path, std::size_t... i>
struct MapCall<F, with_path, std::index_sequence<i...>> {
  static Array call(void* function, [[maybe_unused]] const std::string& path, const Array* const* arrays) {
    F& f = lockstep::internal::function_at<F>(function);
    if constexpr (with_path)
      return f(path, *arrays[i]...);
    else
      return f(*arrays[i]...);
  }
};

template <bool with_paths, class F, class... Trees>
void map_into(TreeRef result, F& f, const Trees&... trees) {
  const TreeRef all[] = {trees...};
  map_into(result, all,
           MapFunction{lockstep::internal::address_of(f),
                       &MapCall<F, with_paths, std::make_index_sequence<sizeof...(trees)>>::call},
           with_paths);
}
}  // namespace internal

/// The tree of f(leaf) for each leaf, or of f(leaf, other leaf...) for the leaves of trees with the same
/// structure. Throws ShapeError if one tree has an array that another one does not have, with the first such
/// path.
template <class F, class Tree, class... Trees>
Tree map(F&& f, const Tree& tree, const Trees&... others) {
  Tree result = tree;
  internal::map_into<false>(tree_ref(result), f, tree_ref(tree), tree_ref(others)...);
  return result;
}

/// The same with the leaf's path as f's first argument.
template <class F, class Tree, class... Trees>
Tree map_with_path(F&& f, const Tree& tree, const Trees&... others) {
  Tree result = tree;
  internal::map_into<true>(tree_ref(result), f, tree_ref(tree), tree_ref(others)...);
  return result;
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
