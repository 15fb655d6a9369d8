// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tree/tree.h"

#include "lockstep/base/error.h"

namespace lockstep::tree::internal {

void check_count(std::size_t places, std::size_t arrays) {
  if (places == arrays) return;
  throw ShapeError("[tree::unflatten] the structure has " + std::to_string(places) + " places, got " +
                   std::to_string(arrays) + " arrays");
}

void map_into(TreeRef result, std::span<const TreeRef> trees, const MapFunction& function, bool with_paths) {
  std::vector<std::vector<Array>> lists;
  for (const TreeRef& tree : trees) {
    if (!lists.empty()) check_same_places("map", trees.front(), tree);
    lists.push_back(tree.leaves());
  }
  const std::vector<std::string> names = with_paths ? paths(trees.front()) : std::vector<std::string>();
  const std::string no_name;
  std::vector<Array> results;
  results.reserve(lists.front().size());
  std::vector<const Array*> arrays(lists.size());
  for (std::size_t i = 0; i < lists.front().size(); ++i) {
    for (std::size_t k = 0; k < lists.size(); ++k) arrays[k] = &lists[k][i];
    results.push_back(function.call(function.function, with_paths ? names[i] : no_name, arrays.data()));
  }
  result.replace_leaves(results);
}

}  // namespace lockstep::tree::internal
