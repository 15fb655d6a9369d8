// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

/// The output of a bar where there is no terminal: a line at each tenth.
std::string written(std::int64_t total, std::int64_t done, ProgressBar::Unit unit, bool shown = true) {
  ::testing::internal::CaptureStdout();
  ProgressBar bar("work", total, shown, unit);
  bar.update(done, "note");
  return ::testing::internal::GetCapturedStdout();
}

TEST(ProgressBar, ShowsCountsWithoutATimeLeft) {
  EXPECT_THAT(
      written(1100, 660, ProgressBar::Unit::kCount),
      AllOf(HasSubstr("work  [############--------]  60%  660/1100  note  "), Not(HasSubstr("left"))));
}

TEST(ProgressBar, OfBytes_ShowsTheRateAndTheTimeLeft) {
  EXPECT_THAT(written(std::int64_t{2} << 30, std::int64_t{3} << 29, ProgressBar::Unit::kBytes),
              MatchesRegex("work  .###############-----.  75%  1.5/2.0 GiB  [0-9.]+ MiB/s  note  [0-9.]+ s, "
                           "[0-9.]+ s left\n"));
  EXPECT_THAT(written(1000, 1000, ProgressBar::Unit::kBytes),
              AllOf(HasSubstr("100%  1000.0/1000.0 B"), Not(HasSubstr("left"))));
  // More than fits where tenths are counted as whole numbers.
  EXPECT_THAT(written(std::int64_t{1} << 62, std::int64_t{1} << 61, ProgressBar::Unit::kBytes),
              HasSubstr("50%  2048.0/4096.0 PiB"));
}

TEST(ProgressBar, IfAnotherProcessShowsIt_WritesNothing) {
  EXPECT_EQ(written(10, 10, ProgressBar::Unit::kCount, false), "");
}

TEST(ProgressBar, TheWaitOfItsThread_IsShownOnTheNewestVisibleBar) {
  ::testing::internal::CaptureStdout();
  ProgressBar::waits_for("nobody");
  {
    ProgressBar job("job", 10), hidden("hidden", 10, false);
    job.update(5);
    { ProgressBar inner("inner", 10); }
    ProgressBar::waits_for("data: a.bin");
  }
  ProgressBar::waits_for("nobody");
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              MatchesRegex("job  .*  50%  5/10    [0-9.]+ s\n"
                           "job  .*  50%  5/10  waits for data: a.bin  [0-9.]+ s\n"));
}

}  // namespace
}  // namespace lockstep
