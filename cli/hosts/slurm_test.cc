// SPDX-License-Identifier: Apache-2.0
#include "cli/hosts/slurm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;

// "node1 0+2, node2 2+2", or the error.
std::string placed(const std::map<std::string, std::string>& variables,
                   std::optional<int> num_processes = {}) {
  std::string text;
  try {
    for (const Placement& place : slurm_placement(MapEnvironment(variables), num_processes)) {
      text += (text.empty() ? "" : ", ") + place.host + " " + std::to_string(place.first) + "+" +
              std::to_string(place.count);
    }
  } catch (const Error& error) {
    return error.what();
  }
  return text;
}

TEST(SlurmPlacement, TakesTheTasksOfTheAllocation) {
  // As `salloc -N3 -n5` sets them.
  const std::map<std::string, std::string> allocation = {{"SLURM_JOB_ID", "7"},
                                                         {"SLURM_JOB_NODELIST", "node[1-3]"},
                                                         {"SLURM_NTASKS", "5"},
                                                         {"SLURM_TASKS_PER_NODE", "2(x2),1"}};
  EXPECT_EQ(placed(allocation), "node1 0+2, node2 2+2, node3 4+1");
  EXPECT_EQ(placed(allocation, 5), "node1 0+2, node2 2+2, node3 4+1");
  EXPECT_EQ(placed(allocation, 6), "node1 0+2, node2 2+2, node3 4+2");
  EXPECT_EQ(placed(allocation, 2), "node1 0+1, node2 1+1");
}

TEST(SlurmPlacement, WithoutTasksAskedFor_SpreadsOverTheNodes) {
  // As `salloc -N2` sets them: SLURM_TASKS_PER_NODE is then a guess of Slurm's.
  const std::map<std::string, std::string> allocation = {
      {"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "node[1-2]"}, {"SLURM_TASKS_PER_NODE", "8(x2)"}};
  EXPECT_EQ(placed(allocation, 3), "node1 0+2, node2 2+1");
  EXPECT_THAT(placed(allocation), HasSubstr("give -n"));
}

TEST(SlurmPlacement, OutsideOfAnAllocation_IsAnErrorThatSaysWhatToDo) {
  EXPECT_THAT(placed({}, 2), HasSubstr("SLURM_JOB_ID"));
  EXPECT_THAT(placed({{"SLURM_JOB_ID", "7"}}, 2), HasSubstr("salloc"));
}

TEST(SlurmPlacement, InvalidTaskCountsAndNodeLists_AreNamedInTheError) {
  for (const char* bad : {"2(x", "2(x2000000000)", "1(x1000000),1", "2(x0)", "2(x-1)", "x", "", "1,", " 1",
                          "99999999999", "2147483647(x2)"}) {
    EXPECT_THAT(placed({{"SLURM_JOB_ID", "7"},
                        {"SLURM_JOB_NODELIST", "node[1-2]"},
                        {"SLURM_NTASKS", "2"},
                        {"SLURM_TASKS_PER_NODE", bad}}),
                ::testing::AnyOf(HasSubstr("SLURM_TASKS_PER_NODE"), HasSubstr("4294967294 processes")))
        << bad;
  }
  EXPECT_THAT(placed({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", std::string(43'000, '[')}}, 2),
              HasSubstr("is not a node list of Slurm"));
}

}  // namespace
}  // namespace lockstep::cli
