// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/coordination/state/state_machine_test.h"

// Which failure is the job's first, when several are seen in whatever order.

namespace lockstep::coordination {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class FirstCauseTest : public StateMachineTest {
 protected:
  /// Under a launcher, whose word the peers' reports wait for.
  void start_launched(int num_tasks) {
    ServerOptions options;
    options.num_processes = num_tasks;
    options.heartbeat_timeout = seconds(100);
    options.peer_report_grace = milliseconds(500);
    machine_ = std::make_unique<StateMachine>(options, clock_, kService);
    for (int i = 0; i < num_tasks; ++i) {
      machine_->set_whereabouts(i, {"b", 4000 + i});
      join(i);
    }
  }

  void expect_first(FailureKind kind, const std::vector<int>& processes, const std::string& message) {
    const auto first = machine_->first_failure();
    ASSERT_TRUE(first);
    EXPECT_EQ(first->kind, kind);
    EXPECT_EQ(first->processes, processes);
    EXPECT_EQ(first->message, message);
  }
};

TEST_F(FirstCauseTest, Divergence_EndsNothing_AndIsTheCauseOfALaterFailure) {
  start(4);
  auto other = poll(0);
  EXPECT_EQ(report({FailureKind::kDiverged, {{1}, {3}}, "process 0 is in psum"}).code(), Code::kOk);
  report({FailureKind::kDiverged, {{2}}, "seen by another a little later"});
  pass(seconds(1));
  EXPECT_FALSE(machine_->first_failure());
  EXPECT_TRUE(other.open()) << "the program may catch the error, and leave";
  fails(0, "process 0 died: exit status 1", FailureKind::kEndedWithError);
  expect_first(FailureKind::kDiverged, {1, 3},
               "processes 1, 3 diverged: process 0 is in psum\nconsequence: process 0 died: exit status 1");
  EXPECT_EQ(other.message(), machine_->first_failure()->message);
  EXPECT_EQ(other.status().service_error->source_task, 1);
  EXPECT_TRUE(other.status().service_error->diverged);
}

TEST_F(FirstCauseTest, Divergence_ThatAllHaveCaught_IsNoFailure) {
  start(2);
  report({FailureKind::kDiverged, {{0}, {1}}, "process 0 is in psum"});
  leave(0), leave(1);
  EXPECT_TRUE(machine_->all_left());
  EXPECT_FALSE(machine_->first_failure());
}

TEST_F(FirstCauseTest, ABarriersTimeout_IsTheCauseWhereAMemberEndsByIt) {
  start(3);
  auto waiting = barrier(0, 0, {0, 1});
  pass(seconds(6));
  EXPECT_EQ(waiting.code(), Code::kDeadlineExceeded);
  EXPECT_FALSE(machine_->first_failure());
  fails(0, "process 0 died: exit status 1", FailureKind::kEndedWithError);
  EXPECT_THAT(machine_->first_failure()->message,
              StartsWith("process 1 did not come in time: barrier 'b' failed: after 5000 ms 1 of 2"));
}

TEST_F(FirstCauseTest, ABarriersTimeout_IsNotTheCauseOfAnUnrelatedFailure) {
  for (const auto& [task, kind] : {std::pair(2, FailureKind::kEndedWithError), {0, FailureKind::kDied}}) {
    start(3);
    barrier(0, 0, {0, 1});
    pass(seconds(6));
    fails(task, "it failed", kind);
    expect_first(kind, {task}, "it failed");
  }
  start(2);
  barrier(0);
  pass(seconds(6));
  barrier(0, 1), barrier(1, 1);
  fails(0, "it failed", FailureKind::kEndedWithError);
  expect_first(FailureKind::kEndedWithError, {0}, "it failed");
}

TEST_F(FirstCauseTest, ABarrierThatAProcessLeft_BlamesThatProcess) {
  start(2, seconds(0));
  auto waiting = barrier(0);
  leave(1);
  EXPECT_EQ(waiting.code(), Code::kInternal);
  fails(0, "process 0 died: signal 6 (SIGABRT)", FailureKind::kEndedWithError);
  EXPECT_THAT(machine_->first_failure()->processes, ElementsAre(1));
  EXPECT_THAT(machine_->first_failure()->message, StartsWith("process 1 left the job early: barrier 'b'"));
}

TEST_F(FirstCauseTest, ProcessesThatDoNotShutDown_AreTheCause) {
  start(4);
  auto last = poll(3);
  leave(0), leave(2);
  pass(seconds(6)), heartbeat(1), heartbeat(3), heartbeat(0), heartbeat(2);
  for (int i = 0; i < 4; ++i) {
    pass(seconds(7));
    for (int task = 0; task < 4; ++task) heartbeat(task);
  }
  EXPECT_THAT(machine_->first_failure()->processes, ElementsAre(1, 3));
  EXPECT_THAT(machine_->first_failure()->message,
              StartsWith("processes 1, 3 did not come in time: after 30 s these have not called shutdown"));
  EXPECT_EQ(last.message(), machine_->first_failure()->message);
}

TEST_F(FirstCauseTest, ProcessesThatDoNotRegister_AreTheCause) {
  make(3);
  join(0), join(2);
  pass(seconds(60));
  EXPECT_EQ(machine_->first_failure()->kind, FailureKind::kMissing);
  EXPECT_THAT(machine_->first_failure()->processes, ElementsAre(1));
}

TEST_F(FirstCauseTest, AProcessThatGivesUpJoining_BlamesTheMissing_UnlessTheyJoin) {
  make(3);
  join(0), join(2);
  report({FailureKind::kMissing, {}, "process 0 waited 5 s for it"});
  fails(0, "process 0 died: exit status 1", FailureKind::kEndedWithError);
  EXPECT_THAT(machine_->first_failure()->message,
              StartsWith("process 1 did not come in time: process 0 waited 5 s for it\nconsequence: "));
  make(2);
  join(0);
  report({FailureKind::kMissing, {}, "process 0 waited 5 s for it"});
  join(1);
  fails(0, "it failed", FailureKind::kEndedWithError);
  expect_first(FailureKind::kEndedWithError, {0}, "it failed");
}

TEST_F(FirstCauseTest, TheLaunchersReport_ReplacesThatOfAPeer) {
  start_launched(3);
  report(1, "its connections closed");
  EXPECT_FALSE(machine_->first_failure());
  fails(1, "process 1 died: signal 9");
  expect_first(FailureKind::kDied, {1}, "process 1 died: signal 9");
}

TEST_F(FirstCauseTest, AnEndSeenByTheLauncher_ComesAfterAnEarlierReportOfAPeer) {
  start_launched(3);
  report(1, "its connections closed");
  fails(0, "process 0 died: exit status 1", FailureKind::kEndedWithError);
  EXPECT_FALSE(machine_->first_failure());
  fails(1, "process 1 died: signal 9");
  expect_first(FailureKind::kDied, {1}, "process 1 died: signal 9");

  start_launched(3);
  report(1, "its connections closed");
  fails(0, "process 0 died: exit status 1", FailureKind::kEndedWithError);
  pass(milliseconds(500));
  expect_first(FailureKind::kDied, {1}, "process 1 (host b, pid 4001) died: its connections closed");
}

TEST_F(FirstCauseTest, SettleReports_MakesAPeersReportTheCause) {
  start_launched(2);
  report(1, "its connections closed");
  machine_->settle_reports();
  EXPECT_THAT(machine_->first_failure()->processes, ElementsAre(1));
}

TEST_F(FirstCauseTest, TheErrorAProcessReported_IsPreferredToItsExitStatus) {
  start_launched(3);
  report(2, "its connections closed");
  report(1, "no such file", true);
  fails(1, "process 1 died: exit status 1", FailureKind::kEndedWithError);
  EXPECT_FALSE(machine_->first_failure());
  leave(0), leave(1), leave(2);
  machine_->settle_reports();
  EXPECT_FALSE(machine_->first_failure()) << "all have left";

  start_launched(3);
  report(1, "no such file", true);
  fails(1, "process 1 died: exit status 1", FailureKind::kEndedWithError);
  EXPECT_THAT(machine_->first_failure()->message, HasSubstr("ended with an error: no such file"));
}

TEST_F(FirstCauseTest, AProcessThatFailsAfterLeaving_IsTheCause_WithoutTellingOthers) {
  start(2, seconds(0));
  auto other = poll(1);
  leave(0);
  fails(0, "process 0 died: exit status 5", FailureKind::kEndedWithError);
  expect_first(FailureKind::kEndedWithError, {0}, "process 0 died: exit status 5");
  EXPECT_TRUE(other.open());
}

TEST_F(FirstCauseTest, AReportOfAnEarlierIncarnation_IsIgnored) {
  start_recoverable(2);
  EXPECT_EQ(join(1, 55).code(), Code::kOk);
  EXPECT_EQ(report({FailureKind::kDied, {{1, incarnation_of(1)}}, "its connections closed"}).code(),
            Code::kOk);
  EXPECT_EQ(state(1), TaskState::kConnected);
  report({FailureKind::kDied, {{1, 55}}, "its connections closed"});
  EXPECT_EQ(state(1), TaskState::kError);
}

}  // namespace
}  // namespace lockstep::coordination
