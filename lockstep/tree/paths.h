#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/tree/visit.h"

/// Arrays of a tree by the names of their places (path.h).
namespace lockstep::tree {

namespace internal {
template <class F>
struct LeavesWithPath {
  F& f;
  Path path;
  template <class A>
  void leaf(A& array) {
    f(path.text(), array);
  }
  template <class T>
  void structure(const T&) {}
};
}  // namespace internal

/// Calls f(path, array) for each array of the tree, in order.
template <class Tree, class F>
void for_each_leaf_with_path(Tree&& tree, F&& f) {
  visit(tree, internal::LeavesWithPath<std::remove_reference_t<F>>{f, Path()});
}

/// The arrays of the tree, in order, each with its path.
template <class Tree>
std::vector<std::pair<std::string, Array>> leaves_with_path(const Tree& tree) {
  std::vector<std::pair<std::string, Array>> all;
  for_each_leaf_with_path(
      tree, [&](const std::string& path, const Array& array) { all.emplace_back(path, array); });
  return all;
}

/// The paths of the arrays of the tree, in order.
template <class Tree>
std::vector<std::string> paths(const Tree& tree) {
  std::vector<std::string> all;
  for_each_leaf_with_path(tree, [&](const std::string& path, const Array&) { all.push_back(path); });
  return all;
}

}  // namespace lockstep::tree
