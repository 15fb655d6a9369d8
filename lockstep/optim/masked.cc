// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/masked.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/ops/apply.h"

namespace lockstep::optim {

void SelectedParams::tree_parts(SelectedParams& self, tree::Parts& part) {
  part("paths", std::as_const(self.paths));
  for (std::size_t i = 0; i < self.arrays.size(); ++i) part(self.paths[i], self.arrays[i]);
}

namespace internal {

Selection selection(tree::TreeRef params, const Mask& mask) {
  Selection chosen;
  for (const auto& [path, array] : tree::internal::leaves_with_path(params))
    chosen.push_back(mask(path, array));
  return chosen;
}

std::vector<Selection> selections(tree::TreeRef params, const std::vector<std::string>& labels,
                                  const Labels& label_of) {
  std::vector<Selection> all(labels.size());
  for (const auto& [path, array] : tree::internal::leaves_with_path(params)) {
    const std::string label = label_of(path, array);
    if (std::ranges::find(labels, label) == labels.end()) {
      fail("[multi_transform] expected one of the labels {} for {}, got \"{}\"{}", fmt::join(labels, ", "),
           path.empty() ? "the parameter" : path, label, ops::at());
    }
    for (std::size_t i = 0; i < labels.size(); ++i) all[i].push_back(labels[i] == label);
  }
  return all;
}

SelectedParams selected(tree::TreeRef tree, const Selection& selection) {
  SelectedParams some;
  auto next = selection.begin();
  for (auto& [path, array] : tree::internal::leaves_with_path(tree)) {
    if (!*next++) continue;
    some.paths.push_back(std::move(path));
    some.arrays.push_back(std::move(array));
  }
  return some;
}

void put_back(tree::TreeRef tree, const Selection& selection, const SelectedParams& changed) {
  auto chosen = selection.begin();
  auto next = changed.arrays.begin();
  tree.change_leaves([&](Array& array) {
    if (*chosen++) array = *next++;
  });
}

void check_same_tree(tree::TreeRef updates, tree::TreeRef params) {
  tree::internal::check_same_places("map", updates, params);
}

}  // namespace internal
}  // namespace lockstep::optim
