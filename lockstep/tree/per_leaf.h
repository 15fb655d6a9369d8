// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/tree/kinds.h"
#include "lockstep/tree/tree_type.h"

/// Values for the arrays of trees: shardings, axes, donation.
namespace lockstep::tree {

namespace internal {

/// Whether the glob matches the whole path: '*' matches any characters or none, '?' matches one; all others,
/// including '[', match themselves.
bool matches(std::string_view glob, std::string_view path);

/// How values are assigned to the arrays of a tree.
enum class Spread { kOneForAll, kOneForEach, kByPath };

/// For each array of the tree the index of its value; or a text that says why they do not match.
struct ValueOfEach {
  std::vector<std::size_t> numbers;
  std::string wrong;
};
ValueOfEach value_of_each(Spread spread, std::size_t num_values, const std::vector<std::string>& globs,
                          TreeRef tree);

/// Throws ShapeError.
[[noreturn]] void fail_without_rule(const std::vector<std::string>& globs, const std::string& path);

}  // namespace internal

/// Values by the paths (path.h) of arrays: the first rule whose glob matches the whole path applies. '*'
/// matches any characters, '?' one.
///   tree::Rules<P>{{"layers[*].w", P("x")}, {"*", P()}}
/// Can be used wherever a PerLeaf can, and as a function of a path for the masks of optim and for
/// checkpoint::RestoreOptions.
template <class T>
class Rules {
 public:
  struct Rule {
    std::string glob;
    T value;
  };
  Rules(std::initializer_list<Rule> rules) : Rules(std::vector<Rule>(rules)) {}
  explicit Rules(std::vector<Rule> rules) : rules_(std::move(rules)) {}

  const std::vector<Rule>& rules() const { return rules_; }
  std::vector<std::string> globs() const {
    std::vector<std::string> all;
    for (const Rule& rule : rules_) all.push_back(rule.glob);
    return all;
  }

  /// The value for the array at this path; nullopt if no rule matches.
  std::optional<T> operator()(const std::string& path) const {
    for (const Rule& rule : rules_) {
      if (internal::matches(rule.glob, path)) return rule.value;
    }
    return std::nullopt;
  }

  /// The same, but throws ShapeError if no rule matches.
  T operator()(const std::string& path, const Array&) const {
    std::optional<T> value = (*this)(path);
    if (!value) internal::fail_without_rule(globs(), path);
    return *std::move(value);
  }

 private:
  std::vector<Rule> rules_;
};

/// A value for each array of a tree: one for all, one for each in the order of the tree, or by Rules.
template <class T>
class PerLeaf {
 public:
  template <class U>
  requires std::convertible_to<U, T> PerLeaf(U&& for_all)
      : spread_(internal::Spread::kOneForAll), values_{T(std::forward<U>(for_all))} {}
  PerLeaf(std::vector<T> for_each) : spread_(internal::Spread::kOneForEach), values_(std::move(for_each)) {}
  PerLeaf(std::initializer_list<T> for_each) : PerLeaf(std::vector<T>(for_each)) {}
  template <class U>
  requires std::convertible_to<U, T> PerLeaf(const Rules<U>& rules)
      : spread_(internal::Spread::kByPath), globs_(rules.globs()) {
    for (const auto& rule : rules.rules()) values_.push_back(T(rule.value));
  }

  /// The value for each array of the tree, in order. Throws an Error, which begins with `what`, if the number
  /// of values is not that of the arrays, or no rule matches one.
  template <class Error>
  std::vector<T> of(TreeRef tree, std::string_view what) const {
    const internal::ValueOfEach each = internal::value_of_each(spread_, values_.size(), globs_, tree);
    if (!each.wrong.empty()) throw Error(std::string(what) + each.wrong);
    std::vector<T> all;
    all.reserve(each.numbers.size());
    for (std::size_t number : each.numbers) all.push_back(values_[number]);
    return all;
  }

 private:
  internal::Spread spread_;
  std::vector<T> values_;
  std::vector<std::string> globs_;
};

/// Values for the arrays of several trees, the arguments or results of a function: JAX's tree prefix. One for
/// all, or a list of a PerLeaf for each tree.
template <class T>
class Prefix {
  /// Whether a U is one value for all arrays, not a list.
  template <class U>
  static constexpr bool kIsForAll =
      std::convertible_to<U, PerLeaf<T>> && !internal::is_vector<std::remove_cvref_t<U>>;

 public:
  Prefix() = default;
  Prefix(std::initializer_list<PerLeaf<T>> for_each) : trees_(for_each) {}
  template <class U>
  requires std::convertible_to<U, PerLeaf<T>> Prefix(const std::vector<U>& for_each)
      : trees_(for_each.begin(), for_each.end()) {}
  template <class U>
  requires kIsForAll<U> Prefix(U&& for_all) : for_all_(true), trees_{PerLeaf<T>(std::forward<U>(for_all))} {}

  /// The number of trees in the list; 1 if it is one for all.
  std::size_t size() const { return trees_.size(); }
  bool is_for_all() const { return for_all_; }

  /// The value for tree i; null if the list is shorter.
  const PerLeaf<T>* at(std::size_t i) const {
    if (for_all_) i = 0;
    return i < trees_.size() ? &trees_[i] : nullptr;
  }

 private:
  bool for_all_ = false;
  std::vector<PerLeaf<T>> trees_;
};

}  // namespace lockstep::tree
