#pragma once

#include <functional>
#include <set>
#include <vector>

namespace lockstep::runtime {

/// From whom a process takes a program's machine code, and who takes it from this one.
struct CodeTree {
  int giver = -1;        ///< -1: nobody, it compiles
  std::set<int> takers;  ///< who takes it from this process

  bool is_shared() const { return giver >= 0 || !takers.empty(); }
};

/// The way of the machine code of a program of these processes, which are in the order of its mesh, to `self`
/// and on. The first process of each host takes it from that of another host whose machine is the same, down
/// a binomial tree over these hosts: each gives it to at most log2 of their number, at the distances 1, 2, 4,
/// …, where its collectives have connections anyway. The others of a host take it from the first. Machine
/// code goes to a host once.
CodeTree code_tree(const std::vector<int>& processes, int self,
                   const std::function<int(int process)>& host_of,
                   const std::function<bool(int process, int other)>& same_machine);

}  // namespace lockstep::runtime
