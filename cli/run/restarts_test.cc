// SPDX-License-Identifier: Apache-2.0
#include "cli/run/restarts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/testing/errors.h"

namespace lockstep::cli {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

TEST(RestartLimit, IsReadAsANumber_OrANumberWithinATime) {
  EXPECT_EQ(parse_restart_limit("3").count, 3);
  EXPECT_EQ(parse_restart_limit("3").within, std::nullopt);
  EXPECT_EQ(parse_restart_limit("10/1h").count, 10);
  EXPECT_EQ(parse_restart_limit("10/1h").within, seconds(3600));
  EXPECT_EQ(parse_restart_limit("1/30s").within, seconds(30));
  EXPECT_EQ(parse_restart_limit("1/5m").within, seconds(300));
  EXPECT_EQ(parse_restart_limit("1/2d").within, seconds(2 * 86400));
  for (const char* text : {"", "-1", "x", "3/", "3/1", "3/h", "3/0h", "3/1y", "3/1hour", "3 ", "99999999"}) {
    EXPECT_THAT(error_of<Error>([&] { parse_restart_limit(text); }),
                HasSubstr("'" + std::string(text) + "'"));
  }
}

class RestartsTest : public ::testing::Test {
 protected:
  // The job runs for so long and fails; whether it is started again.
  bool fails_after(Restarts& restarts, seconds time) {
    const Restarts::Time started = now_;
    now_ += time;
    return restarts.take(started, now_);
  }
  Restarts::Time now_{};
};

TEST_F(RestartsTest, ALimitWithoutATime_IsForTheWholeJob) {
  Restarts restarts(parse_restart_limit("2"), seconds(60));
  EXPECT_TRUE(fails_after(restarts, seconds(5)));
  EXPECT_EQ(restarts.describe(), "restart 1 of 2");
  EXPECT_TRUE(fails_after(restarts, minutes(60 * 24)));
  EXPECT_FALSE(fails_after(restarts, minutes(60 * 24)));
}

TEST_F(RestartsTest, ALimitWithinATime_ForgetsOlderRestarts) {
  Restarts restarts(parse_restart_limit("2/1h"), seconds(60));
  EXPECT_TRUE(fails_after(restarts, minutes(10)));
  EXPECT_TRUE(fails_after(restarts, minutes(40)));  // at 0:50
  EXPECT_TRUE(fails_after(restarts, minutes(20)));  // at 1:10, when the first no longer counts
  EXPECT_EQ(restarts.describe(), "restart 3 (2 of 2 within 1h)");
  EXPECT_FALSE(fails_after(restarts, minutes(10)));  // at 1:20, with two since 0:50
}

TEST_F(RestartsTest, TheWait_GrowsWhileStartsFailSoon) {
  Restarts restarts(parse_restart_limit("100"), seconds(5));
  std::vector<long> waits;
  for (int i = 0; i < 6; ++i) {
    fails_after(restarts, seconds(1));
    waits.push_back(restarts.wait().count());
  }
  fails_after(restarts, minutes(2));
  waits.push_back(restarts.wait().count());
  fails_after(restarts, seconds(1));
  waits.push_back(restarts.wait().count());
  EXPECT_THAT(waits, ElementsAre(0, 1, 2, 4, 5, 5, 0, 1));
  Restarts at_once(parse_restart_limit("100"), seconds(0));
  for (int i = 0; i < 3; ++i) fails_after(at_once, seconds(1));
  EXPECT_EQ(at_once.wait(), seconds(0));
}

}  // namespace
}  // namespace lockstep::cli
