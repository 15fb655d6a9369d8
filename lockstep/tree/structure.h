#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/tree/paths.h"
#include "lockstep/tree/visit.h"

namespace lockstep::tree {

namespace internal {

/// What tells trees of one type apart, as text, one entry each.
struct Telling {
  std::vector<std::string> entries;
  void leaf(const Array&) {}
  template <class T>
  void structure(const T& value) {
    if constexpr (std::is_same_v<T, std::string>)
      entries.push_back(value);
    else if constexpr (std::is_enum_v<T>)
      entries.push_back(std::to_string(static_cast<std::int64_t>(value)));
    else
      entries.push_back(std::to_string(value));
  }
};

template <class Tree>
std::vector<std::string> telling(const Tree& tree) {
  Telling all;
  visit(tree, all);
  return std::move(all.entries);
}

/// Throws ShapeError unless arrays stand at the same places of both trees.
template <class A, class B>
void check_same_places(std::string_view operation, const A& a, const B& b) {
  if constexpr (std::is_same_v<A, B>) {
    if constexpr (std::is_same_v<A, Array>) return;
    if (telling(a) == telling(b)) return;
  }
  const std::vector<std::string> first = paths(a), second = paths(b);
  if (first == second) return;
  const auto [left, right] = std::ranges::mismatch(first, second);
  const bool in_first = left != first.end();
  const std::string name = in_first ? *left : *right;
  throw ShapeError("[tree::" + std::string(operation) +
                   "] the trees differ: " + (in_first ? "the first" : "another") + " has an array at " +
                   (name.empty() ? "its root" : name) + ", where " + (in_first ? "another" : "the first") +
                   " has " + (in_first ? (right == second.end() ? "none" : *right) : "none") +
                   "; give trees of one structure");
}

}  // namespace internal

/// A tree without its arrays: containers, keys, numbers. Two are equal where trees of them are told apart by
/// their arrays only.
template <class Tree>
class Structure {
 public:
  explicit Structure(Tree tree) : exemplar_(std::move(tree)) {
    for_each_leaf(exemplar_, [this](Array& array) {
      array = Array();
      ++num_leaves_;
    });
  }

  std::size_t num_leaves() const { return num_leaves_; }

  /// The tree, of Arrays without value.
  const Tree& exemplar() const { return exemplar_; }

  /// The paths of the arrays, in order: "(layers[0].w, layers[0].b)".
  std::string to_string() const {
    std::string text;
    for (const std::string& path : paths(exemplar_)) text += (text.empty() ? "" : ", ") + path;
    return "(" + text + ")";
  }

  bool operator==(const Structure& other) const {
    return internal::telling(exemplar_) == internal::telling(other.exemplar_);
  }

 private:
  Tree exemplar_;
  std::size_t num_leaves_ = 0;
};

template <class Tree>
Structure<Tree> structure(const Tree& tree) {
  return Structure<Tree>(tree);
}

}  // namespace lockstep::tree
