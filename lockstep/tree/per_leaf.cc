// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tree/per_leaf.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/tree/paths.h"

namespace lockstep::tree::internal {
namespace {

std::string no_rule(const std::vector<std::string>& globs, const std::string& path) {
  std::string all;
  for (const std::string& glob : globs) all += fmt::format("{}\"{}\"", all.empty() ? "" : ", ", glob);
  return fmt::format(
      "no rule is for the array at \"{}\"; the rules are for {}; add one for it, or \"*\" as the last", path,
      all.empty() ? "nothing" : all);
}

}  // namespace

bool matches(std::string_view glob, std::string_view path) {
  std::size_t g = 0, p = 0;
  std::size_t star = std::string_view::npos, from = 0;  // the last '*', and what it stands for so far
  while (p < path.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      from = p;
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == path[p])) {
      ++g;
      ++p;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      p = ++from;
    } else {
      return false;
    }
  }
  return glob.find_first_not_of('*', g) == std::string_view::npos;
}

ValueOfEach value_of_each(Spread spread, std::size_t num_values, const std::vector<std::string>& globs,
                          TreeRef tree) {
  ValueOfEach all;
  if (spread == Spread::kByPath) {
    for (const std::string& path : paths(tree)) {
      std::size_t rule = 0;
      while (rule < globs.size() && !matches(globs[rule], path)) ++rule;
      if (rule == globs.size()) {
        all.wrong = ": " + no_rule(globs, path);
        return all;
      }
      all.numbers.push_back(rule);
    }
    return all;
  }
  const std::size_t arrays = tree.num_leaves();
  if (spread == Spread::kOneForEach && num_values != arrays) {
    all.wrong =
        fmt::format(": {} values for {} array{}; give one for each, in the order of the tree, or one for all",
                    num_values, arrays, arrays == 1 ? "" : "s");
    return all;
  }
  for (std::size_t i = 0; i < arrays; ++i) all.numbers.push_back(spread == Spread::kOneForEach ? i : 0);
  return all;
}

void fail_without_rule(const std::vector<std::string>& globs, const std::string& path) {
  throw ShapeError("[tree::Rules] " + no_rule(globs, path));
}

}  // namespace lockstep::tree::internal
