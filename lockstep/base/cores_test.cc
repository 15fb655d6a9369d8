// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CoreMask, HoldsCoreNumbersAbove1023) {
  const std::vector<int> cores = {0, 63, 64, 1023, 1024, 4095};
  EXPECT_EQ(from_mask(to_mask(cores)), cores);
  EXPECT_THAT(from_mask({}), IsEmpty());
}

TEST(NameCores, WritesConsecutiveCoresAsARange) {
  EXPECT_EQ(name_cores({}), "");
  EXPECT_EQ(name_cores({3}), "3");
  EXPECT_EQ(name_cores({0, 1, 2, 8, 10, 11}), "0-2,8,10-11");
}

TEST(CoresOf, ReadsWhatNameCoresWrites_AndRefusesOtherTexts) {
  EXPECT_THAT(cores_of("0-2,8,10-11"), ElementsAre(0, 1, 2, 8, 10, 11));
  EXPECT_THAT(cores_of("3"), ElementsAre(3));
  for (const char* text : {"", "a", "1-", "3-1", "-1", "1,", "1 2", "0-99999999999", "2000000"})
    EXPECT_THAT(cores_of(text), IsEmpty()) << text;
}

/// A thread that is bound to one core, and what it and a thread of its own may use within OnHostCores.
TEST(OnHostCores, GivesAThreadAllCoresOfTheJob_UntilItIsDestroyed) {
  const CoreMask all = allowed_cores();
  const std::vector<int> cores = from_mask(all);
  if (cores.size() < 2) GTEST_SKIP() << "there is only one core";
  setenv(kHostCoresVariable, name_cores(cores).c_str(), 1);
  std::jthread([&] {
    const std::vector<int> own = {cores.back()};
    ASSERT_TRUE(set_allowed_cores(to_mask(own)));
    {
      const OnHostCores on;
      EXPECT_EQ(from_mask(allowed_cores()), cores);
      std::jthread([&] { EXPECT_EQ(from_mask(allowed_cores()), cores); }).join();
    }
    EXPECT_EQ(from_mask(allowed_cores()), own);
    setenv(kHostCoresVariable, "", 1);
    const OnHostCores on;
    EXPECT_EQ(from_mask(allowed_cores()), own);
  }).join();
  unsetenv(kHostCoresVariable);
}

}  // namespace
}  // namespace lockstep
