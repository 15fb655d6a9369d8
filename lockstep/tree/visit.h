#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fields.h"
#include "lockstep/tree/field_name.h"
#include "lockstep/tree/path.h"

/// Trees: whatever holds arrays. An Array, std::vector, array, tuple, pair, optional and map<string, …> of
/// trees, and any aggregate of trees and of C arrays of them. The arrays are its leaves. Numbers, bools,
/// enums and strings may stand in a tree too: they belong to its structure.
namespace lockstep::tree {

namespace internal {

template <class T>
inline constexpr bool is_vector = false;
template <class T, class A>
inline constexpr bool is_vector<std::vector<T, A>> = true;

template <class T>
inline constexpr bool is_array = false;
template <class T, std::size_t n>
inline constexpr bool is_array<std::array<T, n>> = true;
template <class T, std::size_t n>
inline constexpr bool is_array<T[n]> = true;

template <class T>
inline constexpr bool is_tuple = false;
template <class... T>
inline constexpr bool is_tuple<std::tuple<T...>> = true;
template <class A, class B>
inline constexpr bool is_tuple<std::pair<A, B>> = true;

template <class T>
inline constexpr bool is_map = false;
template <class T, class C, class A>
inline constexpr bool is_map<std::map<std::string, T, C, A>> = true;

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

template <class T>
inline constexpr bool is_static =
    std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, std::string>;

}  // namespace internal

namespace internal {

/// Whether a visitor has a Path that is to tell where it is.
template <class Visitor>
concept KeepsPath = requires(Visitor& visitor) {
  visitor.path;
};

template <class Visitor>
void tell_size(Visitor& visitor, std::size_t size) {
  if constexpr (requires { visitor.size(size); })
    visitor.size(size);
  else
    visitor.structure(size);
}

}  // namespace internal

/// Calls `visitor.leaf(array)` for each array of the tree, in order; `visitor.structure(number)` for what
/// else tells two trees of one type apart: keys, presence, numbers, and sizes unless there is
/// `visitor.size(number)`. A visitor that has a member `path`, of type Path, finds in it the place of what it
/// is given.
template <class Tree, class Visitor>
void visit(Tree&& tree, Visitor&& visitor) {
  using T = std::remove_cvref_t<Tree>;
  constexpr bool keeps_path = internal::KeepsPath<std::remove_reference_t<Visitor>>;
  [[maybe_unused]] std::size_t place = 0;
  auto element = [&](auto& child) {
    if constexpr (keeps_path) {
      const std::size_t from = visitor.path.to_element(place++);
      visit(child, visitor);
      visitor.path.back(from);
    } else {
      visit(child, visitor);
    }
  };
  if constexpr (std::is_same_v<T, Array>) {
    visitor.leaf(tree);
  } else if constexpr (internal::is_static<T>) {
    visitor.structure(tree);
  } else if constexpr (internal::is_vector<T>) {
    internal::tell_size(visitor, tree.size());
    for (auto& child : tree) element(child);
  } else if constexpr (internal::is_array<T>) {
    for (auto& child : tree) element(child);
  } else if constexpr (internal::is_tuple<T>) {
    std::apply([&](auto&... children) { (element(children), ...); }, tree);
  } else if constexpr (internal::is_map<T>) {
    internal::tell_size(visitor, tree.size());
    for (auto& [key, child] : tree) {
      visitor.structure(key);
      if constexpr (keeps_path) {
        const std::size_t from = visitor.path.to_key(key);
        visit(child, visitor);
        visitor.path.back(from);
      } else {
        visit(child, visitor);
      }
    }
  } else if constexpr (internal::is_optional<T>) {
    visitor.structure(tree.has_value());
    if (tree) visit(*tree, visitor);
  } else {
    static_assert(std::is_aggregate_v<T>,
                  "not a tree: a tree is an Array, a standard container of trees, or an aggregate of trees "
                  "(a struct without constructors and base classes)");
    fields::apply(tree, [&](auto&... field) {
      if constexpr (keeps_path) {
        auto named = [&](auto& child, std::string_view name) {
          const std::size_t from = visitor.path.to_field(name);
          visit(child, visitor);
          visitor.path.back(from);
        };
        [&]<std::size_t... i>(std::index_sequence<i...>) {
          (named(field, internal::field_name<T, i>()), ...);
        }
        (std::make_index_sequence<sizeof...(field)>());
      } else {
        (visit(field, visitor), ...);
      }
    });
  }
}

}  // namespace lockstep::tree
