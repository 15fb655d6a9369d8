// SPDX-License-Identifier: Apache-2.0
#include "cli/children/core_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

namespace lockstep::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ShareCores, EachProcessGetsAdjacentCores_AndNoCoreIsLeftOver) {
  EXPECT_THAT(share_cores({0, 4, 1, 5}, 2), ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5)));
  EXPECT_THAT(share_cores({0, 1, 2, 3, 4}, 3),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
  EXPECT_THAT(share_cores({7, 3}, 2), ElementsAre(ElementsAre(7), ElementsAre(3)));
}

TEST(ShareCores, AMultipleOfTheCores_GivesEachCoreTheSameNumberOfProcesses) {
  EXPECT_THAT(share_cores({2, 5}, 4),
              ElementsAre(ElementsAre(2), ElementsAre(2), ElementsAre(5), ElementsAre(5)));
  EXPECT_THAT(share_cores({3}, 2), ElementsAre(ElementsAre(3), ElementsAre(3)));
}

TEST(ShareCores, UnevenSharesOrASingleProcess_BindNoProcess) {
  EXPECT_THAT(share_cores({0, 1}, 3), IsEmpty());
  EXPECT_THAT(share_cores({0, 1, 2, 3}, 6), IsEmpty());
  EXPECT_THAT(share_cores({0, 1}, 1), IsEmpty());
  EXPECT_THAT(share_cores({}, 2), IsEmpty());
}

TEST(ThreadsPerProcess, IsAtLeastOne) {
  EXPECT_EQ(threads_per_process(8, 3), 2);
  EXPECT_EQ(threads_per_process(2, 4), 1);
  EXPECT_EQ(threads_per_process(8, 1), 8);
}

TEST(ThreadsPerProcess, IsNoMoreThanTheQuotaGives) {
  EXPECT_EQ(threads_per_process(64, 2, 8.0), 4);
  EXPECT_EQ(threads_per_process(64, 2, 5.9), 2);
  EXPECT_EQ(threads_per_process(64, 4, 0.5), 1);
  EXPECT_EQ(threads_per_process(4, 2, 64.0), 2);
}

TEST(UsableCores, AreThoseOfThisProcess) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  const std::vector<int> cores = usable_cores();
  EXPECT_EQ(static_cast<int>(cores.size()), CPU_COUNT(&allowed));
  for (int core : cores) EXPECT_TRUE(CPU_ISSET(core, &allowed));
}

}  // namespace
}  // namespace lockstep::cli
