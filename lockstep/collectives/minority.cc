// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/minority.h"

#include <map>
#include <set>
#include <utility>

namespace lockstep::collectives {

std::vector<int> minority(const std::vector<std::pair<int, std::uint64_t>>& what_each_did) {
  std::map<std::uint64_t, std::set<int>> who_did;
  std::set<int> all;
  for (const auto& [process, what] : what_each_did) {
    who_did[what].insert(process);
    all.insert(process);
  }
  std::set<int> differ;
  for (const auto& [what, processes] : who_did) {
    if (2 * processes.size() <= all.size()) differ.insert(processes.begin(), processes.end());
  }
  if (differ.empty()) differ = std::move(all);
  return {differ.begin(), differ.end()};
}

}  // namespace lockstep::collectives
