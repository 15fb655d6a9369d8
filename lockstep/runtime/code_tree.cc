// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/code_tree.h"

#include <unordered_map>

namespace lockstep::runtime {

CodeTree code_tree(const std::vector<int>& processes, int self, const std::function<int(int)>& host_of,
                   const std::function<bool(int, int)>& same_machine) {
  const int here = host_of(self);
  CodeTree tree;
  std::unordered_map<int, int> first_of;  // of each host
  std::vector<int> firsts;                // where the machine is the same as here
  for (const int process : processes) {
    const int host = host_of(process);
    const bool is_first = first_of.try_emplace(host, process).second;
    if (is_first && same_machine(process, self)) firsts.push_back(process);
    if (host == here && process != first_of[here]) tree.takers.insert(process);
  }
  const int first = first_of[here];
  if (self != first) return {first, {}};
  std::size_t place = 0;
  while (firsts[place] != self) ++place;
  if (place != 0) tree.giver = firsts[place & (place - 1)];
  for (std::size_t step = 1; (place & step) == 0 && place + step < firsts.size(); step *= 2)
    tree.takers.insert(firsts[place + step]);
  return tree;
}

}  // namespace lockstep::runtime
