#pragma once

#include <cstddef>
#include <iterator>
#include <source_location>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/tree/paths.h"
#include "lockstep/tree/structure.h"
#include "lockstep/tree/visit.h"

/// What is done with whole trees (visit.h says what a tree is), with jax.tree's names.
namespace lockstep::tree {

/// The tree of f(leaf) for each leaf, or of f(leaf, other leaf...) for the leaves of trees of one structure.
/// Throws ShapeError where an array stands in one tree and not in another, naming the first such place.
template <class F, class Tree, class... Trees>
Tree map(F&& f, const Tree& tree, const Trees&... others) {
  (internal::check_same_places("map", tree, others), ...);
  std::vector<Array> first = leaves(tree), results;
  const std::tuple<std::vector<Array>, std::vector<std::conditional_t<true, Array, Trees>>...> all{
      first, leaves(others)...};
  results.reserve(first.size());
  std::apply(
      [&](const auto&... lists) {
        for (std::size_t i = 0; i < first.size(); ++i) results.push_back(f(lists[i]...));
      },
      all);
  Tree result = tree;
  auto next = results.begin();
  replace_leaves(result, next);
  return result;
}

/// The same with the leaf's path as f's first argument.
template <class F, class Tree, class... Trees>
Tree map_with_path(F&& f, const Tree& tree, const Trees&... others) {
  const std::vector<std::string> names = paths(tree);
  std::size_t i = 0;
  return map([&](const auto&... each) { return f(names[i++], each...); }, tree, others...);
}

/// The arrays of the tree, and what remains of it without them.
template <class Tree>
std::pair<std::vector<Array>, Structure<Tree>> flatten(const Tree& tree) {
  return {leaves(tree), structure(tree)};
}

/// The tree of this structure with these arrays. Throws ShapeError where there are not as many as it has
/// places.
template <class Tree>
Tree unflatten(const Structure<Tree>& structure, const std::vector<Array>& arrays) {
  if (arrays.size() != structure.num_leaves()) {
    throw ShapeError("[tree::unflatten] the structure has " + std::to_string(structure.num_leaves()) +
                     " places, got " + std::to_string(arrays.size()) + " arrays");
  }
  Tree tree = structure.exemplar();
  auto next = arrays.begin();
  replace_leaves(tree, next);
  return tree;
}

/// f(f(f(initial, leaf), leaf), ...) over the leaves in order.
template <class F, class Tree, class T>
T reduce(F&& f, const Tree& tree, T initial) {
  for_each_leaf(tree, [&](const Array& leaf) { initial = f(std::move(initial), leaf); });
  return initial;
}

}  // namespace lockstep::tree
