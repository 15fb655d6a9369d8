// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/base/function.h"
#include "lockstep/tree/kinds.h"
#include "lockstep/tree/visit.h"

/// Trees whose C++ type is only known to a table, so that operations on trees of all types are compiled once.
namespace lockstep::tree {

struct TreeRef;

/// A C++ type of trees. There is one object for each type, and its address identifies the type.
struct TreeType {
  VisitPart visit;
  void* (*copy)(const void* tree);  ///< allocated by new
  void (*destroy)(void* tree);

  /// The elements of a tuple or pair; any other tree has one element, itself.
  std::size_t num_elements;
  TreeRef (*element)(void* tree, std::size_t i);

  /// The contents of type_of<T>.
  template <class T>
  static consteval TreeType make();
};

/// A reference to a tree. It may also refer to a const tree, which then must only be read.
struct TreeRef {
  void* tree = nullptr;
  const TreeType* type = nullptr;

  std::size_t num_elements() const { return type->num_elements; }
  TreeRef element(std::size_t i) const { return type->element(tree, i); }

  /// The arrays, in order.
  std::vector<Array> leaves() const;
  std::size_t num_leaves() const;
  void for_each_leaf(const std::function<void(const Array&)>& f) const;

  /// Calls f with each array; f may change it.
  void change_leaves(const std::function<void(Array&)>& f) const;

  /// Replaces the tree's arrays by the first of these arrays, in order, and returns the others.
  std::span<const Array> replace_leaves(std::span<const Array> arrays) const;
};

/// Owns a tree. It can be moved; `copy_of` copies.
class AnyTree {
 public:
  AnyTree() = default;

  /// Takes ownership of a tree allocated by new.
  AnyTree(void* tree, const TreeType& type) : ref_{tree, &type} {}
  static AnyTree copy_of(TreeRef tree) { return {tree.type->copy(tree.tree), *tree.type}; }

  /// A copy with these arrays as its leaves.
  static AnyTree with_leaves(TreeRef tree, std::span<const Array> leaves);

  AnyTree(AnyTree&& other) noexcept : ref_(std::exchange(other.ref_, {})) {}
  AnyTree& operator=(AnyTree&& other) noexcept {
    std::swap(ref_, other.ref_);
    return *this;
  }
  ~AnyTree() {
    if (ref_.tree != nullptr) ref_.type->destroy(ref_.tree);
  }

  bool valid() const { return ref_.tree != nullptr; }
  const TreeRef& ref() const { return ref_; }
  const TreeRef* operator->() const { return &ref_; }

  /// Moves the tree, which must have this type, out of it.
  template <class T>
  T take() && {
    return std::move(*static_cast<T*>(ref_.tree));
  }

  /// Releases the tree, which must be destroyed by `type->destroy`.
  void* release() { return std::exchange(ref_, {}).tree; }

 private:
  TreeRef ref_;
};

namespace internal {

template <class T>
struct Tables {
  static void* copy(const void* tree) { return new T(*static_cast<const T*>(tree)); }
  static void destroy(void* tree) { delete static_cast<T*>(tree); }
  static TreeRef element(void* tree, std::size_t i);
};

template <class T>
inline constexpr std::size_t num_elements = 1;
template <class T>
requires is_tuple<T>
inline constexpr std::size_t num_elements<T> = std::tuple_size_v<T>;

}  // namespace internal

template <class T>
consteval TreeType TreeType::make() {
  return {&internal::visit_at<T>, &internal::Tables<T>::copy, &internal::Tables<T>::destroy,
          internal::num_elements<T>, &internal::Tables<T>::element};
}

/// Not const, so that a linker never merges the tables of two types.
template <class T>
inline constinit TreeType type_of = TreeType::make<T>();

template <class T>
TreeRef tree_ref(const T& tree) {
  return {const_cast<T*>(&tree), &type_of<T>};
}

template <class T>
TreeRef internal::Tables<T>::element(void* tree, std::size_t i) {
  if constexpr (is_tuple<T>) {
    return [&]<std::size_t... k>(std::index_sequence<k...>) {
      const TreeRef all[] = {tree_ref(std::get<k>(*static_cast<T*>(tree)))..., TreeRef()};
      return all[i];
    }
    (std::make_index_sequence<num_elements<T>>());
  } else {
    return {tree, &type_of<T>};
  }
}

}  // namespace lockstep::tree
