// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/coordination/state/state_machine_test.h"

// Recoverable mode, and what processes report of each other.

namespace lockstep::coordination {
namespace {

using ::testing::HasSubstr;

TEST_F(StateMachineTest, Recoverable_SilentTask_IsNotReportedToOthers) {
  start_recoverable(3);
  auto own = poll(1), other = poll(0);
  pass(seconds(6));
  heartbeat(0);
  heartbeat(2);
  pass(seconds(5));
  EXPECT_EQ(state(1), TaskState::kError);
  EXPECT_EQ(own.code(), Code::kUnavailable);
  EXPECT_TRUE(other.open());
  EXPECT_TRUE(poll(2).open());
  EXPECT_EQ(heartbeat(0).code(), Code::kOk);
  EXPECT_EQ(heartbeat(1).code(), Code::kAborted);
}

TEST_F(StateMachineTest, Recoverable_SilentTaskWithoutPolls_PutsNoOtherInError) {
  start_recoverable(2);
  pass(seconds(6));
  heartbeat(0);
  pass(seconds(5));
  EXPECT_EQ(state(0), TaskState::kConnected);
  EXPECT_EQ(state(1), TaskState::kError);
}

TEST_F(StateMachineTest, Recoverable_FailedTask_RegistersAgainAtOnce) {
  start_recoverable(2);
  fails(1, "signal 9");
  EXPECT_EQ(state(1), TaskState::kError);
  EXPECT_EQ(join(1, 55).code(), Code::kOk);
  EXPECT_EQ(state(1), TaskState::kConnected);
  EXPECT_EQ(heartbeat(1, 55).code(), Code::kOk);
}

TEST_F(StateMachineTest, Recoverable_ConnectedTaskReplaced_OldHeartbeatsDoNotCount) {
  start_recoverable(2);
  auto old_poll = poll(1), other = poll(0);
  EXPECT_EQ(join(1, 55).code(), Code::kOk);
  EXPECT_EQ(old_poll.code(), Code::kCancelled);
  EXPECT_TRUE(other.open());
  EXPECT_EQ(heartbeat(1).code(), Code::kOk) << "of the old life: ignored";
  pass(seconds(9));
  heartbeat(1);
  heartbeat(0);
  pass(seconds(2));
  EXPECT_EQ(state(1), TaskState::kError) << "the old life's heartbeats are no sign of the new one's";
}

TEST_F(StateMachineTest, Recoverable_Barrier_WaitsForTheNextIncarnation) {
  start_recoverable(2);
  barrier(0);
  barrier(1);
  auto dying = barrier(1, 1);
  fails(1, "signal 9");
  EXPECT_EQ(dying.code(), Code::kCancelled);
  auto waiting = barrier(0, 1);
  EXPECT_TRUE(waiting.open()) << "a member in error does not end it";
  join(1, 55);
  auto again = barrier(1, 0);
  EXPECT_EQ(again.code(), Code::kOk) << "the first call of the new life is of the instance going on";
  EXPECT_EQ(again.value(), 1);
  EXPECT_EQ(waiting.code(), Code::kOk);
  auto next = barrier(1, 2);
  EXPECT_TRUE(next.open());
  EXPECT_EQ(barrier(0, 2).code(), Code::kOk);
  join(1, 56);
  auto starts = barrier(1, 0);
  EXPECT_TRUE(starts.open()) << "none is going on: it starts the next one";
  EXPECT_EQ(barrier(0, 3).code(), Code::kOk);
  EXPECT_EQ(starts.value(), 3);
}

TEST_F(StateMachineTest, Recoverable_Barrier_StillHasItsDeadline) {
  start_recoverable(2);
  auto waiting = barrier(0);
  fails(1, "signal 9");
  pass(seconds(5));
  expect_barrier_error(waiting, Code::kDeadlineExceeded, 0);
  EXPECT_THAT(waiting.message(), HasSubstr("missing: process 1 of 2"));
}

TEST_F(StateMachineTest, Recoverable_Leaving_DoesNotWaitForOthers) {
  start_recoverable(2);
  auto waiting = barrier(0);
  EXPECT_EQ(leave(1).code(), Code::kOk);
  EXPECT_EQ(state(1), TaskState::kDisconnected);
  EXPECT_TRUE(waiting.open());
  EXPECT_EQ(leave(1).code(), Code::kInternal);
  EXPECT_FALSE(machine_->all_left());
  EXPECT_EQ(leave(0).code(), Code::kOk);
  EXPECT_TRUE(machine_->all_left());
}

TEST_F(StateMachineTest, Recoverable_DeathBeforeAllCame_KeepsTheOthersWaiting) {
  ServerOptions options;
  options.num_processes = 2;
  options.recoverable = true;
  machine_ = std::make_unique<StateMachine>(options, clock_, kService);
  auto first = join(0);
  fails(1, "signal 9");
  EXPECT_TRUE(first.open());
  join(1);
  EXPECT_EQ(first.code(), Code::kOk);
}

// Reports.

TEST_F(StateMachineTest, Report_OfAPeer_WaitsForTheLaunchersReport) {
  ServerOptions options;
  options.num_processes = 3;
  options.peer_report_grace = milliseconds(500);
  machine_ = std::make_unique<StateMachine>(options, clock_, kService);
  for (int i = 0; i < 3; ++i) join(i);
  auto told = poll(0);
  EXPECT_EQ(report(2, "its connections closed").code(), Code::kOk);
  pass(milliseconds(400));
  EXPECT_TRUE(told.open());
  fails(2, "process 2 (host b, pid 4711) died: signal 9");
  EXPECT_EQ(told.message(), "process 2 (host b, pid 4711) died: signal 9");
  pass(seconds(1));
  EXPECT_EQ(poll(1).message(), told.message());
}

TEST_F(StateMachineTest, Report_OfAPeer_IsSentAfterTheGrace) {
  ServerOptions options;
  options.num_processes = 3;
  options.peer_report_grace = milliseconds(500);
  machine_ = std::make_unique<StateMachine>(options, clock_, kService);
  for (int i = 0; i < 3; ++i) join(i);
  auto told = poll(0);
  report(2, "its connections closed");
  report(1, "a later one");
  pass(milliseconds(500));
  EXPECT_EQ(told.message(), "process 2 died: its connections closed");
  EXPECT_EQ(told.status().service_error->source_task, 2);
}

TEST_F(StateMachineTest, Report_OfAnEarlierIncarnation_IsIgnored) {
  for (const FailureKind kind : {FailureKind::kDied, FailureKind::kLeftEarly, FailureKind::kEndedWithError}) {
    start_recoverable(3);
    join(2, 55);
    EXPECT_EQ(report({kind, {{2, 54}}, "its connections closed"}).code(), Code::kOk);
    EXPECT_EQ(state(2), TaskState::kConnected);
    EXPECT_EQ(report({kind, {{2, 55}}, "its connections closed"}).code(), Code::kOk);
    EXPECT_EQ(state(2), TaskState::kError);
  }
}

TEST_F(StateMachineTest, Report_ThatWaits_IsDroppedWhenTheProcessRegistersAgain) {
  for (const bool left : {false, true}) {
    ServerOptions options;
    options.num_processes = 3;
    options.recoverable = !left;
    options.shutdown_timeout = milliseconds(0);
    options.peer_report_grace = milliseconds(500);
    machine_ = std::make_unique<StateMachine>(options, clock_, kService);
    for (int i = 0; i < 3; ++i) join(i);
    if (left) leave(2);
    report(2, "its connections closed");
    if (!left) report(1, "its connections closed");
    pass(milliseconds(200));
    EXPECT_EQ(join(2, 55).code(), Code::kOk);
    pass(milliseconds(400));
    EXPECT_EQ(state(2), TaskState::kConnected);
    EXPECT_EQ(state(1), left ? TaskState::kConnected : TaskState::kError);
  }
}

TEST_F(StateMachineTest, Report_OfATaskThatLeft_IsIgnored) {
  start(2);
  leave(0);
  leave(1);
  EXPECT_EQ(report(1, "its connections closed").code(), Code::kOk);
  EXPECT_EQ(state(1), TaskState::kDisconnected);
}

TEST_F(StateMachineTest, Report_BeforeAllCame_FailsTheWaitingRegistrations) {
  make(2);
  auto waiting = join(0);
  report(1, "bad input", true);
  EXPECT_EQ(waiting.code(), Code::kUnavailable);
  EXPECT_EQ(waiting.message(), "process 1 ended with an error: bad input");
}

TEST_F(StateMachineTest, Describe_NamesWhoCameAndWhoIsMissing) {
  make(10);
  EXPECT_EQ(
      describe().value().membership(),
      "0 of 10 processes have joined: none; missing: processes 0, 1, 2, 3, 4, 5, 6, 7 and 2 more of 10");
  join(3, 1, {{"host-a", 7}});
  join(4);
  auto told = describe();
  EXPECT_THAT(told.value().membership(),
              HasSubstr("2 of 10 processes have joined: 3 (host host-a), 4; missing: "));
  EXPECT_FALSE(told.value().has_held_by());
  EXPECT_EQ(told.value().host(), Whereabouts::own().host);
  EXPECT_EQ(told.value().pid(), Whereabouts::own().pid);
}

}  // namespace
}  // namespace lockstep::coordination
