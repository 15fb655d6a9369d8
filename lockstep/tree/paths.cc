// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tree/paths.h"

namespace lockstep::tree::internal {
namespace {

struct WithPath final : Visitor {
  const std::function<void(const std::string&, Array&)>& f;
  Path place;
  WithPath(bool changes, const std::function<void(const std::string&, Array&)>& f) : Visitor(changes), f(f) {
    path.kept = &place;
  }
  void leaf(Array& array) override { f(place.text(), array); }
};

}  // namespace

void call_with_paths(TreeRef tree, bool changes, const std::function<void(const std::string&, Array&)>& f) {
  WithPath visitor(changes, f);
  tree.type->visit(tree.tree, visitor);
}

std::vector<std::pair<std::string, Array>> leaves_with_path(TreeRef tree) {
  std::vector<std::pair<std::string, Array>> all;
  call_with_paths(tree, false, [&](const std::string& path, Array& array) { all.emplace_back(path, array); });
  return all;
}

std::vector<std::string> paths(TreeRef tree) {
  std::vector<std::string> all;
  call_with_paths(tree, false, [&](const std::string& path, Array&) { all.push_back(path); });
  return all;
}

}  // namespace lockstep::tree::internal
