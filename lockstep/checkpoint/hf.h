// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/call_site.h"
#include "lockstep/base/dtype.h"
#include "lockstep/base/durations.h"
#include "lockstep/checkpoint/restore_options.h"
#include "lockstep/tree/tree_type.h"

/// Models in Hugging Face's format: trees whose arrays have other names, layouts and dtypes than the tensors
/// of the files. docs/checkpoints.md has an example.
namespace lockstep::checkpoint::hf {

/// Where the arrays with certain paths are in the files.
struct Rule {
  /// The paths of the arrays, with dots: "layers.0.w" for layers[0].w, "heads.out" for heads["out"]. {}
  /// stands for characters other than dots, {*} for any, at least one each.
  std::string path;

  /// The tensor's name. {} is replaced by what the next {} or {*} of the path stands for, {0} by what the
  /// first one does. {e} runs through 0, 1, … as far as there are tensors, {e:up,gate} through these texts:
  /// then the array is made of several tensors, and `layout` may say where.
  std::string tensor;

  /// The dimensions of the tensor and of the array, with the same names for the same axes: "o i -> i o". A
  /// dimension may be a product of axes, outermost first: "(heads size) i -> i heads size". An axis of a name
  /// {e} is one of the array's only: "o i -> e i o". Of the tensor, name=index takes one index,
  /// name=index/count says also how many there are, and name=from:to takes some: "i (part=0/3 o) -> i o". ...
  /// stands for any further axes, and 1 for one of size 1. By default the dimensions are the same, after
  /// those of names {e}. {0} is replaced as in `tensor`.
  std::string layout = {};

  /// The sizes of axes that do not follow from the tensor, or the tree's array if it has a value.
  std::map<std::string, std::int64_t> sizes = {};

  /// Another array is written to the same elements of the files: this one is only read.
  bool tied = false;
};

/// The first rule whose `path` matches applies. An array without a rule is the tensor that its path with dots
/// names.
class Rules {
 public:
  Rules() = default;
  Rules(std::initializer_list<Rule> rules) : rules_(rules) {}
  explicit Rules(std::vector<Rule> rules) : rules_(std::move(rules)) {}

  /// Tensors that the tree has no place for: their names, with {} and {*} as in a rule's path.
  Rules& ignore(std::string tensors) {
    ignored_.push_back(std::move(tensors));
    return *this;
  }

  const std::vector<Rule>& rules() const { return rules_; }
  const std::vector<std::string>& ignored() const { return ignored_; }

 private:
  std::vector<Rule> rules_;
  std::vector<std::string> ignored_;
};

RestoreReport restore_tree(const std::string& url, tree::TreeRef tree, const Rules& rules,
                           const RestoreOptions& options);

/// As checkpoint::restore, with arrays that the rules find in the files; the tree's other values stay. `url`
/// is what checkpoint::restore reads. Floating-point numbers are rounded to the dtype of the array in `like`,
/// if it has a value. `options.rename` applies before the rules. Throws CheckpointError; for tensors that are
/// missing it names those next to them, and the rules; tensors for which the tree has no place, unless they
/// are ignored or `options.partial` is set, are an error, too.
template <class Tree>
Tree restore(const std::string& url, const Tree& like, const Rules& rules = {},
             const RestoreOptions& options = {}, RestoreReport* report = nullptr,
             std::source_location where = std::source_location::current()) {
  CallSiteScope scope(CallSite::from(where));
  Tree tree = like;
  const RestoreReport read = hf::restore_tree(url, tree::tree_ref(tree), rules, options);
  if (report != nullptr) *report = read;
  return tree;
}

struct SaveOptions {
  /// The dtype of floating-point numbers in the files; that of the arrays, if not given.
  std::optional<DType> dtype;

  /// The text of config.json, which is written if this is not empty.
  std::string config;

  /// The largest size of a file, unless a single tensor is larger.
  std::uint64_t largest_file = 5'000'000'000;

  std::chrono::milliseconds timeout = std::chrono::minutes(60);
};

void save_tree(const std::string& folder, tree::TreeRef tree, const Rules& rules, const SaveOptions& options);

/// Writes what `restore` with the same rules reads, as checkpoint::export_hf does: the files have the names,
/// layouts and dtypes that other programs expect. Throws CheckpointError, also if arrays that make up a
/// tensor overlap or leave a part of it.
template <class Tree>
void save(const std::string& folder, const Tree& tree, const Rules& rules = {},
          const SaveOptions& options = {}, std::source_location where = std::source_location::current()) {
  CallSiteScope scope(CallSite::from(where));
  hf::save_tree(folder, tree::tree_ref(tree), rules, options);
}

}  // namespace lockstep::checkpoint::hf
