// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <set>
#include <vector>

namespace lockstep::runtime {

/// Which process gives a process a program's machine code, and which processes take it from this one.
struct CodeTree {
  int giver = -1;        ///< -1: none; this process compiles
  std::set<int> takers;  ///< the processes that take it from this one

  bool is_shared() const { return giver >= 0 || !takers.empty(); }
};

/// The route of a program's machine code to and from process `self`. `processes` are those of the program, in
/// the order of its mesh. The first process of each host takes the code from the first process of another
/// host with an identical machine, along a binomial tree over these hosts: each gives it to at most log2 of
/// their number, at distances 1, 2, 4, …, for which its collectives have connections anyway. The other
/// processes of a host take it from the host's first one. So machine code is sent to a host once.
CodeTree code_tree(const std::vector<int>& processes, int self,
                   const std::function<int(int process)>& host_of,
                   const std::function<bool(int process, int other)>& same_machine);

}  // namespace lockstep::runtime
