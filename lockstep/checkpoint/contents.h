#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/saving.h"
#include "lockstep/tree/visit.h"

/// A tree as its arrays and values by path, and back.
namespace lockstep::checkpoint {

namespace visitors {

template <class T>
Value to_value(const T& number) {
  if constexpr (std::is_enum_v<T>)
    return static_cast<std::int64_t>(number);
  else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>)
    return number;
  else if constexpr (std::is_floating_point_v<T>)
    return static_cast<double>(number);
  else if constexpr (std::is_unsigned_v<T>)
    return static_cast<std::uint64_t>(number);
  else
    return static_cast<std::int64_t>(number);
}

/// A bool, of which a tree has none where a number was saved, fits a number.
template <class To, class From>
bool fits_in(From number) {
  if constexpr (std::is_same_v<From, bool>) {
    return true;
  } else {
    const To fitted = static_cast<To>(number);
    return static_cast<From>(fitted) == number && (fitted < To{}) == (number < From{});
  }
}

/// Throws CheckpointError where a whole number does not fit. The kinds of values are the same.
template <class T>
T from_value(const Value& value, const std::string& path) {
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>) {
    return std::get<T>(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(std::get<double>(value));
  } else {
    return std::visit(
        [&](const auto& number) -> T {
          if constexpr (std::is_integral_v<std::decay_t<decltype(number)>>) {
            using Whole = std::conditional_t<std::is_enum_v<T>, std::int64_t, T>;
            if (fits_in<Whole>(number)) return static_cast<T>(number);
          }
          throw CheckpointError("[checkpoint] " + path + " is " + to_string(value) +
                                ", which the tree's type cannot hold");
        },
        value);
  }
}

/// Values are what stands in the tree itself; keys and the like are passed as constants.
struct Collector {
  Contents& all;
  tree::Path path;
  void leaf(const Array& array) { all.arrays.push_back({path.text(), array}); }
  void size(std::size_t) {}
  template <class T>
  void structure(T&& value) {
    if constexpr (std::is_lvalue_reference_v<T> && !std::is_const_v<std::remove_reference_t<T>>)
      all.values.emplace(path.text(), to_value(value));
  }
};

struct Filler {
  const Contents& all;
  std::size_t next;
  tree::Path path;
  void leaf(Array& array) { array = all.arrays[next++].array; }
  void size(std::size_t) {}
  template <class T>
  void structure(T&& value) {
    if constexpr (std::is_lvalue_reference_v<T> && !std::is_const_v<std::remove_reference_t<T>>)
      value = from_value<std::decay_t<T>>(all.values.at(path.text()), path.text());
  }
};

}  // namespace visitors

template <class Tree>
Contents contents_of(Tree tree) {
  Contents all;
  tree::visit(tree, visitors::Collector{all, tree::Path()});
  return all;
}

/// The tree with these contents, which are as contents_of gives them.
template <class Tree>
Tree with_contents(Tree tree, const Contents& contents) {
  tree::visit(tree, visitors::Filler{contents, 0, tree::Path()});
  return tree;
}

}  // namespace lockstep::checkpoint
