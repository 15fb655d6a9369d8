// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/coordination/state/state_machine_test.h"

namespace lockstep::coordination {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The coordinator's own pauses.

TEST_F(StateMachineTest, AfterTheCoordinatorStoodStill_NobodyIsDeadOrLate) {
  start(2);
  auto meeting = barrier(0, 0, {}, 5000);
  auto leaving = leave(0);
  clock_.advance(milliseconds(50));  // A heartbeat between the last tick and the stop.
  heartbeat(1);
  clock_.advance(seconds(3600));
  machine_->stood_still(seconds(3600));
  machine_->tick();
  EXPECT_EQ(state(1), TaskState::kConnected);
  EXPECT_TRUE(meeting.open() && leaving.open());
  EXPECT_FALSE(machine_->first_failure());
  pass(seconds(5));
  EXPECT_EQ(meeting.code(), Code::kDeadlineExceeded) << "it has as long as it had";
  pass(seconds(6));
  EXPECT_THAT(machine_->first_failure()->message, HasSubstr("no heartbeat for 10 s"));
}

TEST_F(StateMachineTest, AfterTheCoordinatorStoodStill_RegistrationsKeepTheirTime) {
  make(2);
  auto waiting = join(0);
  clock_.advance(seconds(100));
  machine_->stood_still(seconds(100));
  machine_->tick();
  EXPECT_TRUE(waiting.open());
}

// Registering.

TEST_F(StateMachineTest, Register_LastArrivalReleasesAll) {
  make(3);
  auto a = join(0), b = join(1);
  EXPECT_TRUE(a.open());
  EXPECT_EQ(state(0), TaskState::kUninitialized);
  auto c = join(2);
  for (auto& reply : {a, b, c}) {
    EXPECT_EQ(reply.code(), Code::kOk);
    EXPECT_EQ(reply.value(), kService);
  }
  EXPECT_EQ(state(0), TaskState::kConnected);
}

TEST_F(StateMachineTest, Register_IdOutOfRange_FailsAloneAndSaysTheRange) {
  make(2);
  auto waiting = join(0);
  for (int task : {-1, 2, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
    auto bad = join(task);
    EXPECT_EQ(bad.code(), Code::kInvalidArgument);
    EXPECT_TRUE(bad.status().service_error);
    EXPECT_THAT(bad.message(), HasSubstr("ids 0 to 1"));
  }
  EXPECT_TRUE(waiting.open());
}

TEST_F(StateMachineTest, Register_SameIncarnationAgain_IsOk) {
  start(2);
  EXPECT_EQ(join(1).code(), Code::kOk);
}

TEST_F(StateMachineTest, Register_NewerIncarnationWhileWaiting_TakesOver) {
  make(2);
  auto old = join(0, 1);
  auto newer = join(0, 2);
  EXPECT_EQ(old.code(), Code::kAlreadyExists);
  EXPECT_TRUE(old.status().service_error);
  EXPECT_THAT(old.message(), HasSubstr("process 0 of 2"));
  EXPECT_TRUE(newer.open());
  join(1);
  EXPECT_EQ(newer.code(), Code::kOk);
}

TEST_F(StateMachineTest, Register_CancelledCall_DoesNotCountAsArrived) {
  make(2);
  auto gone = join(0);
  machine_->cancel(gone.id);
  EXPECT_EQ(gone.code(), Code::kCancelled);
  auto second = join(1);
  EXPECT_TRUE(second.open());
  auto successor = join(0, 5);
  EXPECT_EQ(second.code(), Code::kOk);
  EXPECT_EQ(successor.code(), Code::kOk);
}

TEST_F(StateMachineTest, Register_Deadline_NamesWhoCameAndWhoIsMissing) {
  make(4);
  auto a = join(0), b = join(2);
  pass(seconds(59));
  EXPECT_TRUE(a.open());
  pass(seconds(1));
  for (auto& reply : {a, b}) {
    EXPECT_EQ(reply.code(), Code::kDeadlineExceeded);
    EXPECT_TRUE(reply.status().service_error);
    ASSERT_TRUE(reply.status().barrier);
    EXPECT_EQ(reply.status().barrier->id, "[Init]Wait_for_all_tasks_to_register");
    EXPECT_THAT(reply.message(), HasSubstr("2 of 4 processes have joined: 0, 2; missing"));
    EXPECT_THAT(reply.message(), HasSubstr("missing: processes 1, 3 of 4"));
  }
  EXPECT_EQ(state(1), TaskState::kError);
  EXPECT_EQ(join(1).code(), Code::kAborted);
}

TEST_F(StateMachineTest, Register_DeadlineBeginsAnew_AfterAllHaveCancelled) {
  make(2);
  machine_->cancel(join(0).id);
  pass(seconds(3600));
  auto a = join(0);
  pass(seconds(59));
  EXPECT_TRUE(a.open());
}

TEST_F(StateMachineTest, Register_OtherIncarnationWhileConnected_FailsTheTaskForAll) {
  start(2);
  auto other = poll(0);
  auto intruder = join(1, 999);
  EXPECT_EQ(intruder.code(), Code::kAborted);
  EXPECT_EQ(intruder.status().service_error->source_task, 1);
  EXPECT_EQ(other.code(), Code::kAborted);
  EXPECT_EQ(other.status().service_error->source_task, 1);
  EXPECT_EQ(state(1), TaskState::kError);
  EXPECT_EQ(state(0), TaskState::kConnected);
}

TEST_F(StateMachineTest, Register_AfterCleanLeave_IsOkAtOnce) {
  start(2);
  leave(0), leave(1);
  EXPECT_EQ(join(1, 999).code(), Code::kOk);
  EXPECT_EQ(state(1), TaskState::kConnected);
}

TEST_F(StateMachineTest, Register_AfterAllHaveLeft_WaitsForTheOthersOfANewStart) {
  const Caller own{.where = {"a", 1}};
  start(2);
  insert("key", "of the first start");
  leave(0), leave(1);
  auto first = join(1, 999, own);
  EXPECT_TRUE(first.open());
  auto second = join(0, 998, own);
  EXPECT_EQ(first.code(), Code::kOk);
  EXPECT_EQ(state(1), TaskState::kConnected);
  EXPECT_NE(second.value(), kService);
  service_ = second.value();
  EXPECT_EQ(try_get("key").code(), Code::kNotFound);
}

TEST_F(StateMachineTest, Register_AfterAllHaveLeft_WhereAProcessHoldsTheCoordinator_IsUnavailable) {
  const Caller own{.where = {"a", 1}};
  machine_ =
      std::make_unique<StateMachine>(ServerOptions{.num_processes = 2, .held_by = 0}, clock_, kService);
  join(0), join(1);
  leave(0), leave(1);
  auto early = join(1, 999, own);
  EXPECT_EQ(early.code(), Code::kUnavailable);
  EXPECT_FALSE(early.status().service_error);
  EXPECT_TRUE(machine_->all_left());
}

TEST_F(StateMachineTest, Register_ProcessReportedDeadBefore_FailsTheOthersAtOnce) {
  make(3);
  auto waiting = join(0);
  fails(1, "process 1 (host b, pid 4711) died: signal 9");
  EXPECT_EQ(waiting.code(), Code::kUnavailable);
  EXPECT_TRUE(waiting.status().service_error);
  EXPECT_THAT(waiting.message(), HasSubstr("process 1 (host b, pid 4711) died: signal 9"));
  auto late = join(2);
  EXPECT_EQ(late.code(), Code::kAborted);
  EXPECT_THAT(late.message(), HasSubstr("signal 9"));
}

// Heartbeats and errors.

TEST_F(StateMachineTest, AnyCallWithAnotherServiceIncarnation_FailsWithTheRightOne) {
  start(1);
  for_each_procedure([this](const auto& procedure) {
    using Request = typename std::remove_cvref_t<decltype(procedure)>::Request;
    if constexpr (requires(Request request) { request.incarnations(); }) {
      for (service_ = 0; service_ <= kService + 1; service_ += kService + 1) {
        const Plain reply = tell(of_service<Request>());
        EXPECT_EQ(reply.code(), Code::kInternal) << procedure.path;
        EXPECT_TRUE(reply.status().service_error);
        EXPECT_EQ(reply.status().right_service_incarnation, kService);
      }
    }
  });
}

TEST_F(StateMachineTest, Heartbeat_UnknownOrUnregistered_IsInvalid) {
  make(2);
  EXPECT_EQ(heartbeat(7).code(), Code::kInvalidArgument);
  EXPECT_EQ(heartbeat(0).code(), Code::kInvalidArgument);
}

TEST_F(StateMachineTest, Heartbeat_AfterLeaving_IsOkForOneTimeout) {
  start(1);
  leave(0);
  pass(seconds(10));
  EXPECT_EQ(heartbeat(0).code(), Code::kOk);
  pass(seconds(1));
  EXPECT_EQ(heartbeat(0).code(), Code::kInvalidArgument);
}

TEST_F(StateMachineTest, Heartbeat_WrongIncarnation_FailsTheTaskForAll) {
  start(2);
  auto other = poll(1);
  EXPECT_EQ(heartbeat(0, 5).code(), Code::kAborted);
  EXPECT_EQ(other.code(), Code::kAborted);
  EXPECT_EQ(heartbeat(0).code(), Code::kAborted) << "the task is in error now";
}

TEST_F(StateMachineTest, SilentTask_IsReportedToAllWhoPoll_AndTheyGoOn) {
  start(3);
  auto a = poll(0), c = poll(2);
  pass(seconds(6));
  heartbeat(0), heartbeat(2);
  pass(seconds(5));
  for (auto& reply : {a, c}) {
    EXPECT_EQ(reply.code(), Code::kUnavailable);
    ASSERT_TRUE(reply.status().service_error);
    EXPECT_EQ(reply.status().service_error->source_task, 1);
    EXPECT_EQ(reply.message(), "process 1 died: no heartbeat for 10 s");
  }
  EXPECT_EQ(state(1), TaskState::kError);
  EXPECT_EQ(heartbeat(0).code(), Code::kOk);
  EXPECT_EQ(poll(0).code(), Code::kUnavailable) << "the first error is kept";
  auto first = barrier(0, 0, {0, 2});
  auto second = barrier(2, 0, {0, 2});
  EXPECT_EQ(first.code(), Code::kOk);
}

TEST_F(StateMachineTest, SilentTask_NobodyPolls_PutsAllInError) {
  start(2);
  pass(seconds(6));
  heartbeat(0);
  pass(seconds(5));
  EXPECT_EQ(state(0), TaskState::kError);
  auto beat = heartbeat(0);
  EXPECT_EQ(beat.code(), Code::kAborted);
  EXPECT_THAT(beat.message(), HasSubstr("process 1 died: no heartbeat for 10 s"));
  EXPECT_EQ(poll(0).code(), Code::kUnavailable);
}

TEST_F(StateMachineTest, OtherCalls_DoNotReplaceHeartbeats) {
  start(2);
  auto other = poll(0);
  for (int i = 0; i < 3; ++i) {
    pass(seconds(4));
    heartbeat(0);
    insert("k", "v", true);
  }
  EXPECT_EQ(other.code(), Code::kUnavailable);
}

TEST_F(StateMachineTest, ReportedDeath_ReachesAllPollersWithItsMessage) {
  start(4);
  auto a = poll(0), b = poll(1);
  fails(3, "process 3 (host b, pid 4711) died: signal 9");
  EXPECT_EQ(a.code(), Code::kUnavailable);
  EXPECT_EQ(b.message(), "process 3 (host b, pid 4711) died: signal 9");
  EXPECT_EQ(b.status().service_error->source_task, 3);
  fails(2, "process 2 died later");
  EXPECT_EQ(poll(0).message(), "process 3 (host b, pid 4711) died: signal 9");
}

TEST_F(StateMachineTest, ReportedDeath_OfATaskThatLeft_IsNoFailure) {
  start(1);
  leave(0);
  fails(0, "exit status 1");
  fails(99, "no such process");
  EXPECT_EQ(state(0), TaskState::kDisconnected);
}

TEST_F(StateMachineTest, Poll_Again_CancelsTheFirst) {
  start(1);
  auto first = poll(0), second = poll(0);
  EXPECT_EQ(first.code(), Code::kCancelled);
  EXPECT_TRUE(first.status().service_error);
  EXPECT_TRUE(second.open());
}

TEST_F(StateMachineTest, Poll_UnknownOrUnregistered_Fails) {
  make(2);
  EXPECT_EQ(poll(2).code(), Code::kInvalidArgument);
  EXPECT_EQ(poll(0).code(), Code::kFailedPrecondition);
}

// Shutdown.

TEST_F(StateMachineTest, Shutdown_AnswersCallersFirst_ThenDisconnectsAll) {
  start(2);
  std::vector<std::string> order;
  make_call(*machine_, next_call_id(), of_task<jax::PollForErrorRequest>(0), [&](Status status, const auto&) {
    EXPECT_EQ(status.code, Code::kCancelled);
    EXPECT_TRUE(status.service_error);
    order.push_back("poll");
  });
  make_call(*machine_, next_call_id(), of_task<jax::ShutdownTaskRequest>(0), [&](Status status, const auto&) {
    EXPECT_TRUE(status.ok());
    order.push_back("shutdown");
  });
  EXPECT_TRUE(order.empty());
  EXPECT_FALSE(machine_->all_left());
  EXPECT_EQ(leave(1).code(), Code::kOk);
  EXPECT_THAT(order, ElementsAre("shutdown", "poll"));
  EXPECT_TRUE(machine_->all_left());
  EXPECT_TRUE(machine_->wait_until_all_left(milliseconds(0)));
}

TEST_F(StateMachineTest, Shutdown_Timeout_NamesTheMissing_AndFailsTheJob) {
  start(2);
  auto other = poll(1);
  auto a = leave(0);
  for (int i = 0; i < 6; ++i) pass(seconds(5)), heartbeat(0), heartbeat(1);
  EXPECT_EQ(a.code(), Code::kInternal);
  EXPECT_TRUE(a.status().service_error);
  EXPECT_THAT(a.message(), HasSubstr("process 1 of 2"));
  EXPECT_EQ(other.code(), Code::kInternal);
  EXPECT_EQ(state(1), TaskState::kError);
}

TEST_F(StateMachineTest, Shutdown_MemberDies_FailsWithTheFirstCause) {
  start(3);
  auto polling = poll(0);
  auto a = leave(0);
  fails(2, "process 2 of 3 died: signal 9");
  EXPECT_EQ(a.code(), Code::kInternal);
  EXPECT_EQ(a.status().service_error->source_task, 2);
  EXPECT_THAT(a.message(), HasSubstr("signal 9"));
  EXPECT_EQ(polling.message(), "process 2 of 3 died: signal 9");
  EXPECT_EQ(leave(1).code(), Code::kOk) << "a later call only disconnects the caller";
  EXPECT_EQ(state(1), TaskState::kDisconnected);
  EXPECT_EQ(leave(1).code(), Code::kInternal);
}

TEST_F(StateMachineTest, Shutdown_AfterADeath_FailsAtOnce) {
  start(2);
  poll(0);
  fails(1, "signal 9");
  auto a = leave(0);
  EXPECT_EQ(a.code(), Code::kInternal);
  EXPECT_THAT(a.message(), HasSubstr("signal 9"));
}

TEST_F(StateMachineTest, Shutdown_TimeoutZero_DoesNotWait) {
  start(2, seconds(0));
  EXPECT_EQ(leave(0).code(), Code::kOk);
  EXPECT_EQ(state(0), TaskState::kDisconnected);
  EXPECT_EQ(state(1), TaskState::kConnected);
  EXPECT_EQ(leave(5).code(), Code::kInvalidArgument);
}

// Stopping.

TEST_F(StateMachineTest, Stop_AnswersAllWaitingCalls) {
  start(2);
  auto polling = poll(0), leaving = leave(0);
  auto value = get("k");
  auto waiting = barrier(0);
  auto watching = watch(machine_->tasks().empty() ? 0 : watch(-1).value().version_number());
  auto living = alive(0, {0, 1});
  machine_->stop();
  EXPECT_EQ(polling.code(), Code::kUnavailable);
  EXPECT_FALSE(polling.status().service_error);
  EXPECT_EQ(leaving.code(), Code::kUnavailable);
  EXPECT_EQ(value.code(), Code::kUnavailable);
  EXPECT_EQ(watching.code(), Code::kUnavailable);
  EXPECT_EQ(living.code(), Code::kUnavailable);
  expect_barrier_error(waiting, Code::kAborted, 0);
  EXPECT_EQ(join(0).code(), Code::kUnavailable);
  EXPECT_EQ(insert("k", "v").code(), Code::kUnavailable);
}

TEST_F(StateMachineTest, Answer_MayCallTheServiceAgain) {
  start(1);
  std::string found;
  make_call(*machine_, next_call_id(), of_key<jax::GetKeyValueRequest>("a"),
            [&](const Status&, const auto&) { insert("b", "from the answer"); });
  insert("a", "v");
  EXPECT_EQ(try_get("b").value(), "from the answer");
}

TEST(StateMachineOptions, InvalidOnes_AreRefused) {
  ManualClock clock;
  ServerOptions options;
  options.num_processes = 0;
  EXPECT_THROW(StateMachine(options, clock, kService), InitializationError);
  options.num_processes = 1;
  options.heartbeat_timeout = milliseconds(0);
  EXPECT_THROW(StateMachine(options, clock, kService), InitializationError);
}

TEST(NameProcesses, NamesTheFirstAndCountsTheRest) {
  EXPECT_EQ(name_processes({3}, 4), "process 3 of 4");
  EXPECT_EQ(name_processes({0, 2}, 4), "processes 0, 2 of 4");
  EXPECT_EQ(name_processes({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 20),
            "processes 0, 1, 2, 3, 4, 5, 6, 7 and 2 more of 20");
}

}  // namespace
}  // namespace lockstep::coordination
