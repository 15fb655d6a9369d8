// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/job_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::watch {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

/// Two processes, of which the first waits for the second, on a clock moved by hand.
class TwoProcesses : public ::testing::Test {
 protected:
  static ProcessReport report(int process, double waited) {
    ProcessReport report{.process = process, .pid = 10 + process, .came = true, .joined = true};
    ThreadReport thread{.tid = 10 + process};
    if (waited > 0) {
      thread.doing = {{.kind = Kind::kCollective, .what = "psum", .seconds = waited, .operation = 1}};
      thread.missing = {1 - process};
      thread.missing_count = 1;
    }
    report.threads.push_back(thread);
    return report;
  }
  static MeshReport mesh(std::uint64_t launches, bool with_log, std::uint64_t program = 7) {
    MeshReport mesh{.mesh = 3, .processes = "0, 1", .launches = launches, .hash = 31 * launches + program};
    for (std::uint64_t n = 1; n <= launches && with_log; ++n)
      mesh.log.push_back({.number = n, .hash = 31 * n + program, .program = program, .what = "step"});
    return mesh;
  }

  /// The next second, in which process 0 has waited for so long.
  std::vector<std::string> second(double waited) {
    now_ += seconds(1);
    watch_.take(report(0, waited));
    watch_.take(report(1, 0));
    return watch_.look(now_);
  }

  std::chrono::steady_clock::time_point now_{seconds(1000)};
  JobWatch watch_{2, 10, std::nullopt};
};

TEST_F(TwoProcesses, WaitingForLong_AreReportedAtDoublingIntervals) {
  std::vector<int> said;
  for (int waited = 1; waited <= 90; ++waited)
    if (!second(waited).empty()) said.push_back(waited);
  EXPECT_THAT(said, ElementsAre(10, 20, 40, 80));
  std::vector<std::string> lines;
  for (int i = 0; i < 5; ++i)
    for (std::string& line : second(0)) lines.push_back(std::move(line));
  EXPECT_THAT(lines, ElementsAre(StartsWith("went on after 90 s: process 1 came to psum")));
}

TEST_F(TwoProcesses, WaitingForLongTwice_AreReportedTwice) {
  std::vector<std::string> lines;
  for (int round = 0; round < 2; ++round)
    for (int waited = 1; waited <= 15; ++waited)
      for (std::string& line : second(waited)) lines.push_back(std::move(line));
  EXPECT_THAT(lines, ElementsAre(StartsWith("stalled for 10 s"), StartsWith("went on after 15 s"),
                                 StartsWith("stalled for 10 s")));
}

TEST_F(TwoProcesses, WaitingBriefly_AreNotReported) {
  for (int waited = 1; waited <= 9; ++waited) EXPECT_THAT(second(waited), IsEmpty());
  for (int i = 0; i < 5; ++i) EXPECT_THAT(second(0), IsEmpty());
  EXPECT_THAT(watch_.finish(now_), IsEmpty());
}

TEST_F(TwoProcesses, WithoutANewReportOfAWaitingProcess_AStallIsNotReported) {
  JobWatch watch(2, 2, 4);
  const auto look = [&](int seconds_later) {
    now_ += seconds(seconds_later);
    return watch.look(now_);
  };
  ProcessReport awaited = report(1, 0);
  awaited.ended = "ended with status 0";
  watch.take(report(0, 16));
  watch.take(awaited);
  EXPECT_THAT(look(1), IsEmpty());
  watch.take(awaited);
  EXPECT_THAT(look(7), IsEmpty()) << "process 0 may have ended meanwhile";
  EXPECT_FALSE(watch.failure().has_value());
  watch.take(report(0, 24));
  EXPECT_THAT(look(1), ElementsAre(HasSubstr("has ended")));
  EXPECT_TRUE(watch.failure().has_value());
}

TEST_F(TwoProcesses, AreAskedForTheirLogs_UntilTheyHaveSentThem) {
  const auto take = [&](bool with_logs) {
    now_ += seconds(1);
    for (int process = 0; process < 2; ++process) {
      ProcessReport one = report(process, process == 0 ? 8 : 0);
      one.meshes = {mesh(5, with_logs)};
      watch_.take(std::move(one));
    }
    watch_.look(now_);
  };
  take(false);
  EXPECT_TRUE(watch_.wants_logs());
  take(true);
  EXPECT_FALSE(watch_.wants_logs());
  take(false);
  EXPECT_FALSE(watch_.wants_logs()) << "what has come is kept";
}

TEST_F(TwoProcesses, WithDifferentPrograms_AreReportedOnce) {
  for (int process = 0; process < 2; ++process) {
    ProcessReport one = report(process, 0);
    one.meshes = {mesh(5, true, 7 + static_cast<std::uint64_t>(process))};
    watch_.take(std::move(one));
  }
  EXPECT_THAT(watch_.look(now_), ElementsAre(HasSubstr("launch 1 over the mesh differs")));
  EXPECT_THAT(watch_.look(now_ + seconds(1)), IsEmpty());
  EXPECT_THAT(watch_.difference(), HasSubstr("launch 1 over the mesh differs"));
  EXPECT_THAT(watch_.finish(now_), IsEmpty());
}

TEST_F(TwoProcesses, WithDifferentPrograms_FailTheJob_WhereCollectivesDoNotCompareThem) {
  for (const bool unchecked : {false, true}) {
    JobWatch watch(2, 10, std::nullopt);
    const auto look = [&](int second) {
      for (int process = 0; process < 2; ++process) {
        ProcessReport one = report(process, 0);
        one.meshes = {mesh(5, true, 7 + static_cast<std::uint64_t>(process))};
        one.meshes[0].unchecked = unchecked;
        watch.take(std::move(one));
      }
      watch.look(now_ + seconds(second));
      return watch.failure().has_value();
    };
    for (const int second : {0, 1, 2}) EXPECT_FALSE(look(second)) << "the processes may find it themselves";
    EXPECT_EQ(look(3), unchecked);
    if (!unchecked) continue;
    EXPECT_TRUE(watch.failure()->diverged);
    EXPECT_THAT(watch.failure()->processes, SizeIs(1));
    EXPECT_THAT(watch.failure()->message, HasSubstr("launch 1 over the mesh differs"));
  }
}

TEST(JobWatch, AfterTheStallTimeout_FailsTheJobNamingTheAwaited) {
  JobWatch watch(2, 10, 30);
  ProcessReport waiting{.process = 0, .pid = 10, .came = true, .joined = true};
  waiting.threads = {{.tid = 10,
                      .doing = {{.kind = Kind::kCollective, .what = "psum", .seconds = 29, .operation = 1}},
                      .missing = {1},
                      .missing_count = 1}};
  watch.take(waiting);
  watch.take({.process = 1, .pid = 11, .came = true, .joined = true});
  std::chrono::steady_clock::time_point now{seconds(1000)};
  for (int waited = 1; waited <= 30; ++waited) {
    EXPECT_FALSE(watch.failure()) << waited;
    waiting.threads[0].doing[0].seconds = waited;
    watch.take(waiting);
    watch.look(now += seconds(1));
  }
  ASSERT_TRUE(watch.failure());
  EXPECT_THAT(watch.failure()->processes, ElementsAre(1));
  EXPECT_THAT(watch.failure()->message, HasSubstr("longer than --stall-timeout 30 s"));
}

TEST(JobWatch, AProcessBetweenTwoOperations_IsReportedOnlyAtTheNextLook) {
  JobWatch watch(2, 10, std::nullopt);
  std::chrono::steady_clock::time_point now{seconds(1000)};
  const auto look = [&](int waited, bool compiles) {
    ProcessReport waiting{.process = 0, .pid = 10, .came = true, .joined = true};
    waiting.threads = {{.tid = 10,
                        .doing = {{.kind = Kind::kCollective,
                                   .what = "psum",
                                   .seconds = static_cast<double>(waited),
                                   .operation = 1}},
                        .missing = {1},
                        .missing_count = 1}};
    ProcessReport other{.process = 1, .pid = 11, .came = true, .joined = true};
    ThreadReport thread{.tid = 11, .last = {Kind::kLaunch, "step", "train.cc:30", 0.002}};
    if (compiles) thread.doing = {{.kind = Kind::kCompile, .what = "step", .seconds = 0.4}};
    other.threads = {thread};
    watch.take(waiting);
    watch.take(other);
    return watch.look(now += seconds(1));
  };
  for (int waited = 1; waited < 11; ++waited) EXPECT_THAT(look(waited, false), IsEmpty()) << waited;
  EXPECT_THAT(look(11, true), ElementsAre(HasSubstr("compiles step")));
  for (int waited = 12; waited < 22; ++waited) EXPECT_THAT(look(waited, true), IsEmpty()) << waited;
  EXPECT_THAT(look(22, false), IsEmpty());
  EXPECT_THAT(look(23, false), ElementsAre(HasSubstr("own code since step")));
}

// For 20 s process 0 is in a collective and waits for nobody, and then for process 1.
TEST(JobWatch, AProcessAwaitedOnlyLater_IsTimedFromThen) {
  JobWatch watch(2, 10, std::nullopt);
  std::chrono::steady_clock::time_point now{seconds(1000)};
  std::vector<int> said;
  for (int waited = 1; waited < 50; ++waited) {
    ProcessReport waiting{.process = 0, .pid = 10, .came = true, .joined = true};
    ThreadReport thread{.tid = 10,
                        .doing = {{.kind = Kind::kCollective,
                                   .what = "psum",
                                   .seconds = static_cast<double>(waited),
                                   .operation = 1}}};
    if (waited > 20) thread.missing = {1}, thread.missing_count = 1;
    waiting.threads = {thread};
    watch.take(waiting);
    watch.take({.process = 1, .pid = 11, .came = true, .joined = true});
    if (!watch.look(now += seconds(1)).empty()) said.push_back(waited);
  }
  EXPECT_THAT(said, ElementsAre(30, 40));
}

TEST(JobWatch, DevicesThatWaitForEachOther_FailTheJobNamingTheMinority) {
  JobWatch watch(3, 10, 30);
  std::chrono::steady_clock::time_point now{seconds(1000)};
  std::vector<std::string> lines;
  for (int second = 0; second <= 31; ++second) {
    for (int process = 0; process < 3; ++process) {
      const std::uint64_t program = process == 1 ? 8 : 7;
      ProcessReport one{.process = process, .pid = 10 + process, .came = true, .joined = true};
      one.threads = {
          {.tid = 10 + process,
           .doing = {{.kind = Kind::kResult, .what = "a result", .seconds = static_cast<double>(second)}}}};
      one.meshes = {{.mesh = 3, .processes = "0-2", .launches = 4 + program, .hash = program}};
      // Logs come where they are asked for.
      for (std::uint64_t n = 1; n <= one.meshes[0].launches && watch.wants_logs(); ++n) {
        const std::uint64_t which = n <= 4 ? 1 : program;
        one.meshes[0].log.push_back({.number = n, .hash = which, .program = which, .what = "step"});
      }
      watch.take(std::move(one));
    }
    for (std::string& line : watch.look(now += seconds(1))) lines.push_back(std::move(line));
    EXPECT_EQ(watch.failure().has_value(), second >= 30) << second;
  }
  ASSERT_THAT(lines, ::testing::Contains(HasSubstr("launch 5 over the mesh differs")));
  EXPECT_THAT(lines, ::testing::Contains(HasSubstr("they wait for each other")));
  ASSERT_TRUE(watch.failure());
  EXPECT_THAT(watch.failure()->processes, ElementsAre(1));
}

}  // namespace
}  // namespace lockstep::watch
