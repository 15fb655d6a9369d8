#include "lockstep/tree/paths.h"

namespace lockstep::tree::internal {
namespace {

struct WithPath final : Visitor {
  const std::function<void(const std::string&, Array&)>& f;
  Path place;
  explicit WithPath(const std::function<void(const std::string&, Array&)>& f) : f(f) { path.kept = &place; }
  void leaf(Array& array) override { f(place.text(), array); }
};

}  // namespace

void call_with_paths(TreeRef tree, const std::function<void(const std::string&, Array&)>& f) {
  WithPath visitor(f);
  tree.type->visit(tree.tree, visitor);
}

std::vector<std::pair<std::string, Array>> leaves_with_path(TreeRef tree) {
  std::vector<std::pair<std::string, Array>> all;
  call_with_paths(tree, [&](const std::string& path, Array& array) { all.emplace_back(path, array); });
  return all;
}

std::vector<std::string> paths(TreeRef tree) {
  std::vector<std::string> all;
  call_with_paths(tree, [&](const std::string& path, Array&) { all.push_back(path); });
  return all;
}

}  // namespace lockstep::tree::internal
