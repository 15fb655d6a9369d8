// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/tree/per_leaf.h"

namespace lockstep::internal {

/// An option of a transformation with a value for each array of the arguments or results, as it is named in
/// messages.
struct TreeOption {
  std::string_view operation;  ///< "pmap"
  std::string_view name;       ///< "in_axes"
  std::string_view trees;      ///< "argument" or "result"
  std::string site;            ///< the call site of the transformation: "train.cc:12"

  /// The values for the arrays of tree i. Throws an Error if the option does not match the tree.
  template <class Error, class T>
  std::vector<T> values(const tree::PerLeaf<T>& of_tree, std::size_t i, tree::TreeRef tree) const {
    return of_tree.template of<Error>(
        tree, fmt::format("[{}] {} of {} {} (at {})", operation, name, trees, i, site));
  }

  /// The same; a tree without a value gets `missing`.
  template <class Error, class T>
  std::vector<T> values(const tree::Prefix<T>& all, std::size_t i, tree::TreeRef tree, T missing) const {
    const tree::PerLeaf<T>* const of_tree = all.at(i);
    return of_tree != nullptr ? values<Error>(*of_tree, i, tree) : std::vector<T>(tree.num_leaves(), missing);
  }

  /// The same for an option that must have one value for each of `count` trees, or one for all. Throws an
  /// Error if the number differs.
  template <class Error, class T>
  std::vector<T> required_values(const tree::Prefix<T>& all, std::size_t i, tree::TreeRef tree,
                                 std::size_t count) const {
    if (all.size() != 1 && all.size() != count) {
      fail<Error>("[{}] expected {} for {} {}s, got {} (at {}); give one for each, or one for all", operation,
                  name, count, trees, all.size(), site);
    }
    return values<Error>(*all.at(all.size() == 1 ? 0 : i), i, tree);
  }

  /// The same; an empty list gives each array `missing`.
  template <class Error, class T>
  std::vector<T> values_or(const tree::Prefix<T>& all, std::size_t i, tree::TreeRef tree, std::size_t count,
                           T missing) const {
    return all.size() == 0 ? std::vector<T>(tree.num_leaves(), missing)
                           : required_values<Error>(all, i, tree, count);
  }

  /// Throws an Error if a list has more than `count` values.
  template <class Error, class T>
  void check_at_most(const tree::Prefix<T>& all, std::size_t count) const {
    if (all.size() <= count || all.is_for_all()) return;
    fail<Error>("[{}] {} has {} entries, but the function (at {}) has {} {}s; give at most one for each",
                operation, name, all.size(), site, count, trees);
  }
};

}  // namespace lockstep::internal
