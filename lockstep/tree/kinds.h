// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

/// Which kind of tree (visit.h) a type of the language or of the standard library is.
namespace lockstep::tree::internal {

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
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

template <class T>
inline constexpr bool is_variant = false;
template <class... T>
inline constexpr bool is_variant<std::variant<T...>> = true;

template <class T>
inline constexpr bool is_shared_ptr = false;
template <class T>
inline constexpr bool is_shared_ptr<std::shared_ptr<T>> = true;

template <class T>
inline constexpr bool is_value =
    std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, std::string>;

template <class T>
inline constexpr bool is_function_pointer =
    std::is_pointer_v<T>&& std::is_function_v<std::remove_pointer_t<T>>;

template <class T>
concept Sequence = requires(T& tree, const typename T::value_type& value) {
  tree.size();
  tree.begin();
  tree.end();
  tree.push_back(value);
};

template <class T>
concept Map = requires(T& tree, const typename T::key_type& key) {
  typename T::mapped_type;
  tree.size();
  tree.begin();
  tree.at(key);
};
template <class T>
concept Sorted = requires {
  typename T::key_compare;
};

}  // namespace lockstep::tree::internal
