// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/code_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>

namespace lockstep::runtime {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::vector<int> first_processes(int count) {
  std::vector<int> processes(static_cast<std::size_t>(count));
  std::iota(processes.begin(), processes.end(), 0);
  return processes;
}

bool all_same(int, int) { return true; }

TEST(CodeTree, OnOneHost_TheFirstProcessGivesTheCodeToAll) {
  const auto one_host = [](int) { return 0; };
  EXPECT_THAT(code_tree({2, 0, 1}, 2, one_host, all_same).takers, UnorderedElementsAre(0, 1));
  EXPECT_EQ(code_tree({2, 0, 1}, 0, one_host, all_same).giver, 2);
  EXPECT_FALSE(code_tree({2}, 2, one_host, all_same).is_shared());
}

TEST(CodeTree, EachProcessGetsTheCodeOnce_AndGivesItToFew) {
  for (const auto& [hosts, locals] : {std::pair(1, 4), {2, 1}, {3, 2}, {7, 3}, {64, 1}, {100, 2}}) {
    const std::vector<int> processes = first_processes(hosts * locals);
    const auto host_of = [locals = locals](int process) { return process / locals; };
    int compile = 0;
    std::vector<int> came(processes.size());
    for (const int process : processes) {
      const CodeTree tree = code_tree(processes, process, host_of, all_same);
      compile += tree.giver < 0;
      int to_hosts = 0;
      for (const int taker : tree.takers) {
        ++came[static_cast<std::size_t>(taker)];
        to_hosts += host_of(taker) != host_of(process);
        EXPECT_EQ(code_tree(processes, taker, host_of, all_same).giver, process);
        EXPECT_LT(process, taker) << "nobody waits for who waits for him";
      }
      EXPECT_LE(to_hosts, std::bit_width(static_cast<unsigned>(hosts)));
    }
    EXPECT_EQ(compile, 1);
    EXPECT_EQ(std::ranges::count(came, 1), static_cast<std::ptrdiff_t>(came.size()) - 1);
  }
}

TEST(CodeTree, HostsOfOtherMachines_HaveTheirOwnTree) {
  const auto host_of = [](int process) { return process; };
  const auto same_parity = [](int a, int b) { return (a - b) % 2 == 0; };
  EXPECT_THAT(code_tree(first_processes(5), 0, host_of, same_parity).takers, UnorderedElementsAre(2, 4));
  EXPECT_THAT(code_tree(first_processes(5), 1, host_of, same_parity).takers, UnorderedElementsAre(3));
  EXPECT_EQ(code_tree(first_processes(5), 1, host_of, same_parity).giver, -1);
  EXPECT_EQ(code_tree(first_processes(5), 3, host_of, same_parity).giver, 1);
  EXPECT_THAT(code_tree(first_processes(5), 3, host_of, same_parity).takers, IsEmpty());
}

}  // namespace
}  // namespace lockstep::runtime
