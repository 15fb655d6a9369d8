#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/tree/visit.h"

/// Trees whose C++ type is known to a table only: what is done with trees of all types is compiled once.
namespace lockstep::tree {

struct TreeRef;

/// A C++ type of trees. There is one for each, whose address stands for the type.
struct TreeType {
  void (*visit)(void* tree, Visitor& visitor);
  void* (*copy)(const void* tree);  ///< new
  void (*destroy)(void* tree);

  /// The elements of a tuple or pair; any other tree is the one element of itself.
  std::size_t num_elements;
  TreeRef (*element)(void* tree, std::size_t i);
};

/// A tree that stands elsewhere. Refers to a const one too, which then is only read.
struct TreeRef {
  void* tree = nullptr;
  const TreeType* type = nullptr;

  std::size_t num_elements() const { return type->num_elements; }
  TreeRef element(std::size_t i) const { return type->element(tree, i); }

  /// The arrays, in order.
  std::vector<Array> leaves() const;
  std::size_t num_leaves() const;
  void for_each_leaf(const std::function<void(const Array&)>& f) const;

  /// Calls f with each array, for it to change.
  void change_leaves(const std::function<void(Array&)>& f) const;

  /// Puts the first of the arrays, in order, in the places of the tree's own, and gives the others.
  std::span<const Array> replace_leaves(std::span<const Array> arrays) const;
};

/// A tree that stands by itself. It may be moved; `copy_of` copies.
class AnyTree {
 public:
  AnyTree() = default;

  /// Takes one that was made by new.
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

  /// Takes the tree, which must be of this type, out of it.
  template <class T>
  T take() && {
    return std::move(*static_cast<T*>(ref_.tree));
  }

  /// Gives the tree away, for `type->destroy` to end.
  void* release() { return std::exchange(ref_, {}).tree; }

 private:
  TreeRef ref_;
};

namespace internal {

template <class T>
struct Tables {
  static void visit(void* tree, Visitor& visitor) { tree::visit(*static_cast<T*>(tree), visitor); }
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

/// Not const, so that no linker makes the tables of two types one.
template <class T>
inline TreeType type_of{&internal::Tables<T>::visit, &internal::Tables<T>::copy,
                        &internal::Tables<T>::destroy, internal::num_elements<T>,
                        &internal::Tables<T>::element};

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
