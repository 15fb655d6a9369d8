// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/base/fields.h"
#include "lockstep/tree/field_names.h"
#include "lockstep/tree/kinds.h"
#include "lockstep/tree/visitor.h"

/// Trees contain arrays, which are their leaves. A tree is
///  - an Array;
///  - a bool, number, enum, string or pointer to a function, which belongs to the tree's structure;
///  - a sequence (std::vector, deque, list, array, a C array), std::tuple, pair, optional or variant of
///    trees;
///  - a map (std::map, unordered_map) from strings, integers or enums to trees. An unordered map is visited
///    in the order of its keys;
///  - a std::shared_ptr to a tree: treated as the tree itself. When a tree is changed, the pointer gets a
///    changed copy, and two pointers to one tree become separate trees, as in JAX;
///  - an aggregate of trees: a struct without constructors, base classes and private members. The names of
///    its parts are those of its fields;
///  - an empty class, which has no parts;
///  - any other class that declares its parts: see Node.
namespace lockstep::tree {

class Parts;

/// Makes a class that is not an aggregate a tree, or changes how an aggregate is treated. Specialise it with
///   template <>
///   struct lockstep::tree::Node<Linear> {
///     static void parts(Linear& self, lockstep::tree::Parts& part) { part("w", self.w)("b", self.b); }
///   };
/// or give the class the same function as a public member, `static void tree_parts(Linear& self,
/// lockstep::tree::Parts& part)`, which may name private members. It must name, always in the same order, all
/// parts that contain arrays or on which a traced function depends. Other parts are copied with the object.
/// The class must be copyable. A derived class does not inherit it, because its own parts would be missing.
template <class T>
struct Node {};

namespace internal {

template <class T>
concept HasNode = requires(T& tree, Parts& part) {
  Node<T>::parts(tree, part);
};
template <class T>
concept HasTreeParts = requires {
  static_cast<void (*)(T&, Parts&)>(&T::tree_parts);
};

template <class T>
concept MakesItself = requires(const T& part, const Array& key) {
  { part.init(key) } -> std::same_as<T>;
};
template <class T>
concept NamesItsAxes = requires(const T& part) {
  { part.logical_axes() } -> std::same_as<std::vector<NamedAxes>>;
};

template <class T>
inline constexpr void (*init_of)(void*, const Array&) = nullptr;
template <MakesItself T>
inline constexpr void (*init_of<T>)(void*, const Array&) = [](void* part, const Array& key) {
  T& typed = *static_cast<T*>(part);
  typed = std::as_const(typed).init(key);
};
template <class T>
inline constexpr std::vector<NamedAxes> (*axes_of)(const void*) = nullptr;
template <NamesItsAxes T>
inline constexpr std::vector<NamedAxes> (*axes_of<T>)(const void*) =
    [](const void* part) { return static_cast<const T*>(part)->logical_axes(); };
template <class T>
inline constexpr Abilities abilities{init_of<T>, axes_of<T>};

}  // namespace internal

/// Calls the visitor for each part of the tree, in order.
template <class Tree>
void visit(Tree& tree, Visitor& visitor);

namespace internal {
/// The same for a tree of this type at an address: a VisitPart.
template <class Tree>
void visit_at(void* tree, Visitor& visitor) {
  visit(*static_cast<Tree*>(tree), visitor);
}
}  // namespace internal

/// Collects the parts of a class (Node), each with its name.
class Parts {
 public:
  explicit Parts(Visitor& visitor) : visitor_(visitor) {}

  /// A value that distinguishes trees within this process only, such as an address.
  Parts& only_here(std::uint64_t value) {
    visitor_.only_here(value);
    return *this;
  }

  /// A const part belongs to the structure, and is not saved in a checkpoint.
  template <class T>
  Parts& operator()(std::string_view name, T& part) {
    visitor_.field(name, std::addressof(part), &internal::visit_at<T>);
    return *this;
  }

 private:
  Visitor& visitor_;
};

namespace internal {

template <class T>
void visit_elements(T& tree, Visitor& visitor) {
  std::size_t i = 0;
  for (auto& child : tree)
    visitor.element(i++, std::addressof(child), &visit_at<std::remove_reference_t<decltype(child)>>);
}

template <class T, std::size_t... i>
void visit_tuple(T& tree, Visitor& visitor, std::index_sequence<i...>) {
  (visitor.element(i, std::addressof(std::get<i>(tree)),
                   &visit_at<std::remove_reference_t<decltype(std::get<i>(tree))>>),
   ...);
}

template <class T>
void visit_map(T& tree, Visitor& visitor) {
  using Key = typename std::remove_const_t<T>::key_type;
  static_assert(std::is_integral_v<Key> || std::is_enum_v<Key> || std::is_same_v<Key, std::string>,
                "not a tree: the keys of a map are strings, whole numbers or enums");
  auto entry = [&](const Key& key, auto& child) {
    visitor.tell(key);
    const std::size_t from = visitor.path.to_key(key);
    visit(child, visitor);
    visitor.path.back(from);
  };
  visitor.size(tree.size());
  if constexpr (Sorted<std::remove_const_t<T>>) {
    for (auto&& [key, child] : tree) entry(key, child);
  } else {
    std::map<Key, decltype(&tree.begin()->second)> in_order;
    for (auto& [key, child] : tree) in_order.emplace(key, &child);
    for (const auto& [key, child] : in_order) entry(key, *child);
  }
}

template <class T>
void visit_shared(std::shared_ptr<T>& tree, Visitor& visitor) {
  using Tree = std::remove_const_t<T>;
  static_assert(
      !std::is_polymorphic_v<Tree> || std::is_final_v<Tree>,
      "not a tree: what a shared_ptr points to may be of a derived class; hold a std::variant of the "
      "classes, or make the class final");
  visitor.tell(tree != nullptr);
  if (tree == nullptr) return;
  if (visitor.changes() && (std::is_const_v<T> || tree.use_count() > 1))
    tree = std::make_shared<Tree>(std::as_const(*tree));
  visit(const_cast<Tree&>(*tree), visitor);
}

struct VisitFields {
  Visitor& visitor;
  const std::string_view* names;

  template <class... T>
  void operator()(T&... field) const {
    [[maybe_unused]] const std::string_view* name = names;
    (visitor.field(*name++, std::addressof(field), &visit_at<T>), ...);
  }
};

}  // namespace internal

template <class Tree>
void visit(Tree& tree, Visitor& visitor) {
  using T = std::remove_cv_t<Tree>;
  if constexpr (std::is_class_v<T> && !std::is_const_v<Tree> &&
                (internal::MakesItself<T> || internal::NamesItsAxes<T>)) {
    if (visitor.able(&tree, internal::abilities<T>)) return;
  }
  if constexpr (std::is_same_v<T, Array>) {
    static_assert(!std::is_const_v<Tree>, "not a tree: an Array in it is const");
    visitor.leaf(tree);
  } else if constexpr (internal::HasNode<T>) {
    Parts part(visitor);
    Node<T>::parts(tree, part);
  } else if constexpr (internal::HasTreeParts<T>) {
    Parts part(visitor);
    T::tree_parts(tree, part);
  } else if constexpr (internal::is_value<T>) {
    if constexpr (std::is_const_v<Tree>)
      visitor.tell(tree);
    else
      visitor.value(ValueRef(tree));
  } else if constexpr (internal::is_function_pointer<T>) {
    visitor.only_here(reinterpret_cast<std::uintptr_t>(tree));
  } else if constexpr (std::is_same_v<T, std::vector<bool>>) {
    visitor.size(tree.size());
    std::size_t i = 0;
    for (auto&& each : tree) {
      bool value = each;
      visitor.element(i++, &value, &internal::visit_at<bool>);
      if constexpr (!std::is_const_v<Tree>) {
        if (visitor.changes()) each = value;
      }
    }
  } else if constexpr (internal::Sequence<T>) {
    visitor.size(tree.size());
    internal::visit_elements(tree, visitor);
  } else if constexpr (internal::is_array<T>) {
    internal::visit_elements(tree, visitor);
  } else if constexpr (internal::is_tuple<T>) {
    internal::visit_tuple(tree, visitor, std::make_index_sequence<std::tuple_size_v<T>>());
  } else if constexpr (internal::Map<T>) {
    internal::visit_map(tree, visitor);
  } else if constexpr (internal::is_optional<T>) {
    visitor.tell(tree.has_value());
    if (tree) visit(*tree, visitor);
  } else if constexpr (internal::is_variant<T>) {
    visitor.tell(tree.index());
    std::visit([&](auto& held) { visit(held, visitor); }, tree);
  } else if constexpr (internal::is_shared_ptr<T>) {
    static_assert(!std::is_const_v<Tree>, "not a tree: a std::shared_ptr in it is const");
    internal::visit_shared(tree, visitor);
  } else if constexpr (!std::is_empty_v<T> || std::is_aggregate_v<T>) {
    static_assert(
        std::is_aggregate_v<T>,
        "not a tree: a tree is an Array, a standard container of trees, an aggregate of trees (a struct "
        "without constructors and base classes), or a class that names its parts "
        "(lockstep::tree::Node)");
    fields::apply(tree, internal::VisitFields{visitor, internal::field_names<T>.data()});
  }
}

}  // namespace lockstep::tree
