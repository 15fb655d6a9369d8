#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/tree/visit.h"

/// Names of the places in a tree: "layers[0].w". A field of an aggregate has its own name, an element of a
/// vector, array, tuple or pair its number, an entry of a map its key: ["key"]. An optional adds nothing.
namespace lockstep::tree {

namespace internal {

/// Objects that are never made: the addresses of their fields have the fields' names.
template <class T>
struct Named {
  T value;
};
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-var-template"
#endif
template <class T>
extern const Named<T> named;

template <class T>
struct FieldPointer {
  const T* field;
};
template <class T>
FieldPointer(const T*) -> FieldPointer<T>;

template <auto pointer>
consteval std::string_view text_with_pointer() {
  return __PRETTY_FUNCTION__;
}

/// The i-th field's name, from the compiler's text of a pointer to it: the last word before the last brace.
template <class T, std::size_t i>
consteval std::string_view field_name() {
  constexpr std::string_view text = text_with_pointer<FieldPointer{&fields::get<i>(named<T>.value)}>();
  auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  std::size_t end = text.rfind('}');
  while (!is_part(text[end - 1])) --end;
  std::size_t begin = end;
  while (is_part(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}
#if defined(__clang__)
#pragma clang diagnostic pop
#endif

template <class Tree, class F>
void walk(Tree&& tree, const std::string& path, F& f) {
  using T = std::remove_cvref_t<Tree>;
  auto element = [&](std::size_t i) { return path + "[" + std::to_string(i) + "]"; };
  if constexpr (std::is_same_v<T, Array>) {
    f(path, tree);
  } else if constexpr (is_static<T>) {
    return;
  } else if constexpr (is_vector<T> || is_array<T>) {
    std::size_t i = 0;
    for (auto& child : tree) walk(child, element(i++), f);
  } else if constexpr (is_tuple<T>) {
    std::size_t i = 0;
    std::apply([&](auto&... children) { (walk(children, element(i++), f), ...); }, tree);
  } else if constexpr (is_map<T>) {
    for (auto& [key, child] : tree) walk(child, path + "[\"" + key + "\"]", f);
  } else if constexpr (is_optional<T>) {
    if (tree) walk(*tree, path, f);
  } else {
    fields::apply(tree, [&](auto&... field) {
      [&]<std::size_t... i>(std::index_sequence<i...>) {
        (walk(field, path + (path.empty() ? "" : ".") + std::string(field_name<T, i>()), f), ...);
      }
      (std::make_index_sequence<sizeof...(field)>());
    });
  }
}

}  // namespace internal

/// Calls f(path, array) for each array of the tree, in order.
template <class Tree, class F>
void for_each_leaf_with_path(Tree&& tree, F&& f) {
  internal::walk(tree, std::string(), f);
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
