// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tree/structure.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::tree::internal {
namespace {

struct Telling final : Visitor {
  std::vector<std::string> entries;
  void leaf(Array&) override {}
  void size(std::size_t value) override { entries.push_back(fmt::format("{}", value)); }
  void text(const std::string& value) override { entries.push_back(value); }
  void real(double value) override { entries.push_back(fmt::format("{}", value)); }
  void long_real(long double value) override { entries.push_back(fmt::format("{}", value)); }
  void natural(std::uint64_t value) override { entries.push_back(fmt::format("{}", value)); }
  void integer(std::int64_t value) override { entries.push_back(fmt::format("{}", value)); }
};

}  // namespace

std::vector<std::string> telling(TreeRef tree) {
  Telling all;
  tree.type->visit(tree.tree, all);
  return std::move(all.entries);
}

void check_same_places(std::string_view operation, TreeRef a, TreeRef b) {
  if (a.type == b.type && (a.type == &type_of<Array> || telling(a) == telling(b))) return;
  const std::vector<std::string> first = paths(a), second = paths(b);
  if (first == second) return;
  const auto [left, right] = std::ranges::mismatch(first, second);
  const bool in_first = left != first.end();
  const std::string name = in_first ? *left : *right;
  throw ShapeError("[tree::" + std::string(operation) +
                   "] the trees differ: " + (in_first ? "the first" : "another") + " has an array at " +
                   (name.empty() ? "its root" : name) + ", where " + (in_first ? "another" : "the first") +
                   " has " + (in_first ? (right == second.end() ? "none" : *right) : "none") +
                   "; give trees of one structure");
}

std::size_t empty_leaves(TreeRef tree) {
  std::size_t count = 0;
  tree.change_leaves([&](Array& array) {
    array = Array();
    ++count;
  });
  return count;
}

std::string paths_text(TreeRef tree) {
  std::string text;
  for (const std::string& path : paths(tree)) text += (text.empty() ? "" : ", ") + path;
  return "(" + text + ")";
}

}  // namespace lockstep::tree::internal
