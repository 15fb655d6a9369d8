// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/coordination/state/state_machine_test.h"
#include "lockstep/testing/processor_time.h"

namespace lockstep::coordination {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// Keys.

TEST_F(StateMachineTest, Keys_AreNormalized) {
  start(1);
  EXPECT_EQ(insert("//a///b/", "1").code(), Code::kOk);
  EXPECT_EQ(try_get("a/b").value(), "1");
  EXPECT_THAT(directory("a").value(), ElementsAre(Pair("a/b", "1")));
}

TEST_F(StateMachineTest, Insert_Existing_NeedsOverwrite) {
  start(1);
  insert("k", "old");
  auto again = insert("k", "new");
  EXPECT_EQ(again.code(), Code::kAlreadyExists);
  EXPECT_FALSE(again.status().service_error);
  EXPECT_EQ(try_get("k").value(), "old");
  EXPECT_EQ(insert("k", "new", true).code(), Code::kOk);
  EXPECT_EQ(try_get("k").value(), "new");
}

TEST_F(StateMachineTest, Get_WaitsForTheKey_EvenIfATaskFails) {
  start(2);
  auto first = get("k"), abandoned = get("k"), other = get("other");
  machine_->cancel(abandoned.id);
  EXPECT_EQ(abandoned.code(), Code::kCancelled);
  fails(1, "died");
  EXPECT_TRUE(first.open());
  insert("k/", "v");
  EXPECT_EQ(first.code(), Code::kOk);
  EXPECT_EQ(first.value(), "v");
  EXPECT_TRUE(other.open());
}

TEST_F(StateMachineTest, TryGet_Missing_IsNotFound) {
  start(1);
  auto missing = try_get("k");
  EXPECT_EQ(missing.code(), Code::kNotFound);
  EXPECT_TRUE(missing.status().service_error);
}

TEST_F(StateMachineTest, Increment_CountsInDecimalText) {
  start(1);
  auto waiting = get("n");
  EXPECT_EQ(increment("n", 5).value(), "5");
  EXPECT_EQ(waiting.value(), "5");
  EXPECT_EQ(increment("n", -7).value(), "-2");
  insert("large", "9223372036854775806");
  EXPECT_EQ(increment("large", 1).value(), "9223372036854775807");
  EXPECT_EQ(increment("large", 1).code(), Code::kFailedPrecondition);
  for (std::string text : {"", "abc", "1x", " 1", "99999999999999999999"}) {
    insert("bad", text, true);
    EXPECT_EQ(increment("bad", 1).code(), Code::kFailedPrecondition) << text;
  }
}

TEST_F(StateMachineTest, DirectoryAndDelete_IncludeTheKeysBelow) {
  start(1);
  for (std::string key : {"d/b", "d/a/x", "d", "da", "d-"}) insert(key, "v");
  EXPECT_THAT(directory("/d/").value(), ElementsAre(Pair("d/a/x", "v"), Pair("d/b", "v")));
  EXPECT_THAT(directory("").value(), ElementsAre());
  EXPECT_THAT(directory("none").value(), ElementsAre());
  EXPECT_EQ(erase("d").code(), Code::kOk);
  EXPECT_EQ(try_get("d").code(), Code::kNotFound);
  EXPECT_EQ(try_get("d/a/x").code(), Code::kNotFound);
  EXPECT_EQ(try_get("da").value(), "v");
}

// Barriers.

TEST_F(StateMachineTest, Barrier_LastArrivalReleasesAll_AndTheNextInstanceFollows) {
  start(2);
  for (int counter = 0; counter < 3; ++counter) {
    auto a = barrier(0, counter);
    EXPECT_TRUE(a.open());
    auto b = barrier(1, counter);
    EXPECT_EQ(a.code(), Code::kOk);
    EXPECT_EQ(b.value(), counter);
  }
}

TEST_F(StateMachineTest, Barrier_EmptyAndFullListAreTheSame) {
  start(2);
  auto a = barrier(0, 0, {});
  auto b = barrier(1, 0, {1, 0});
  EXPECT_EQ(a.code(), Code::kOk);
}

TEST_F(StateMachineTest, Barrier_Deadline_NamesTheMissing_AndFailsALateCaller) {
  start(3);
  auto a = barrier(0), b = barrier(1, 0, {}, 60000);
  pass(seconds(5));
  expect_barrier_error(a, Code::kDeadlineExceeded, 0);
  expect_barrier_error(b, Code::kDeadlineExceeded, 0);
  EXPECT_THAT(a.message(), HasSubstr("process 2 of 3"));
  expect_barrier_error(barrier(2), Code::kDeadlineExceeded, 0);
  auto next = barrier(0, 1);
  barrier(1, 1), barrier(2, 1);
  EXPECT_EQ(next.code(), Code::kOk);
}

TEST_F(StateMachineTest, Barrier_DisagreementOnWhoTakesPart_FailsItForAll) {
  start(3);
  auto a = barrier(0, 0, {0, 1});
  auto outsider = barrier(2, 0, {0, 1});
  expect_barrier_error(a, Code::kInvalidArgument, 0);
  expect_barrier_error(outsider, Code::kInvalidArgument, 0);
  a = barrier(0, 1, {0, 1});
  auto b = barrier(1, 1, {0, 1, 2});
  expect_barrier_error(a, Code::kInvalidArgument, 1);
  EXPECT_THAT(b.message(), HasSubstr("all 3 processes"));
}

TEST_F(StateMachineTest, Barrier_OutsiderAfterItsEnd_FailsAlone) {
  start(3);
  barrier(0, 0, {0, 1}), barrier(1, 0, {0, 1});
  expect_barrier_error(barrier(2, 0, {0, 1}), Code::kInvalidArgument, 0);
  expect_barrier_error(barrier(2, 0, {0, 1, 2}), Code::kInvalidArgument, 0);
  EXPECT_EQ(barrier(1, 0, {0, 1}).code(), Code::kOk);
}

TEST_F(StateMachineTest, Barrier_InvalidLists_AreRefusedAndLeaveNoTrace) {
  start(2);
  expect_barrier_error(barrier(0, 0, {0, 0}), Code::kInvalidArgument, 0);
  expect_barrier_error(barrier(0, 1, {0, 2}), Code::kInvalidArgument, 1);
  expect_barrier_error(barrier(0, 2, {0, -1}), Code::kInvalidArgument, 2);
  expect_barrier_error(barrier(-3, 3), Code::kInvalidArgument, 3);
  auto good = barrier(0, 4, {0});
  EXPECT_EQ(good.code(), Code::kOk);
}

TEST_F(StateMachineTest, Barrier_WrongCounter_FailsItForAllAndTheyRecoverTogether) {
  start(2);
  barrier(0), barrier(1);
  auto a = barrier(0, 1);
  auto lost = barrier(1, 5);
  expect_barrier_error(a, Code::kInternal, 1);
  expect_barrier_error(lost, Code::kInternal, 1);
  a = barrier(0, 2);
  barrier(1, 2);
  EXPECT_EQ(a.code(), Code::kOk);
}

TEST_F(StateMachineTest, Barrier_CounterAboveZeroOnANewId_LeavesNoTrace) {
  start(1);
  expect_barrier_error(barrier(0, 3), Code::kInternal, -1);
  expect_barrier_error(barrier(0, std::numeric_limits<std::int64_t>::max()), Code::kInternal, -1);
  expect_barrier_error(barrier(0, std::numeric_limits<std::int64_t>::min()), Code::kInternal, -1);
  EXPECT_EQ(barrier(0, 0).code(), Code::kOk);
}

TEST_F(StateMachineTest, Barrier_LongestAndShortestTimeouts_AreHandled) {
  start(2);
  auto a = barrier(0, 0, {}, std::numeric_limits<std::int64_t>::max(), "longest");
  auto b = barrier(0, 0, {}, std::numeric_limits<std::int64_t>::min(), "shortest");
  pass(seconds(1));
  EXPECT_TRUE(a.open());
  EXPECT_EQ(b.code(), Code::kDeadlineExceeded);
}

TEST_F(StateMachineTest, Barrier_SameTaskTwice_CancelsTheFirstCall) {
  start(2);
  auto first = barrier(0), second = barrier(0);
  EXPECT_EQ(first.code(), Code::kCancelled);
  EXPECT_FALSE(first.status().service_error);
  barrier(1);
  EXPECT_EQ(second.code(), Code::kOk);
}

TEST_F(StateMachineTest, Barrier_CancelledCall_StillCountsAsArrived) {
  start(2);
  auto gone = barrier(0);
  machine_->cancel(gone.id);
  EXPECT_EQ(gone.code(), Code::kCancelled);
  EXPECT_EQ(barrier(1).code(), Code::kOk);
}

TEST_F(StateMachineTest, Barrier_MemberFailsOrLeaves_FailsItNamingTheMember) {
  start(3, seconds(0));
  poll(0);
  auto a = barrier(0);
  fails(2, "signal 9");
  expect_barrier_error(a, Code::kInternal, 0);
  EXPECT_EQ(a.status().service_error->source_task, 2);
  EXPECT_THAT(a.message(), HasSubstr("process 2 of 3 has failed: signal 9"));
  expect_barrier_error(barrier(0, 1), Code::kInternal, 1);

  auto two = barrier(0, 0, {0, 1}, 5000, "two");
  EXPECT_EQ(leave(1).code(), Code::kOk);
  EXPECT_EQ(two.code(), Code::kInternal);
  EXPECT_THAT(two.message(), HasSubstr("process 1 of 3 has left"));
}

TEST_F(StateMachineTest, CancelBarrier_FailsWaitingAndLaterCallers) {
  start(2);
  auto a = barrier(0);
  EXPECT_EQ(cancel_barrier(0).code(), Code::kOk);
  expect_barrier_error(a, Code::kCancelled, 0);
  expect_barrier_error(barrier(1), Code::kCancelled, 0);
  EXPECT_EQ(cancel_barrier(0).code(), Code::kFailedPrecondition);
  EXPECT_EQ(cancel_barrier(9).code(), Code::kFailedPrecondition);
}

TEST_F(StateMachineTest, CancelBarrier_UnknownId_LeavesNoTrace) {
  start(1);
  EXPECT_EQ(cancel_barrier(std::numeric_limits<std::int64_t>::max()).code(), Code::kFailedPrecondition);
  EXPECT_EQ(barrier(0).code(), Code::kOk);
}

/// As a program calls them that names each after its step.
TEST(BarrierTable, ForgetsTheOldestFinished_WhichMayBeginAgain) {
  BarrierTable table(2, {[](const BarrierTable::Failed&) {}, [](const std::string&) {}});
  std::vector<Status> answers;
  auto call = [&](const std::string& id, std::int64_t counter, int source) {
    Answers due;
    table.call(
        next_call_id(), {id, counter, 1000, {}, source}, Clock::TimePoint(), [](int) { return std::nullopt; },
        [&](const Status& status, std::int64_t) { answers.push_back(status); }, due);
    for (auto& answer : due) answer();
  };
  for (int step = 0; step < 20000; ++step) {
    for (int source : {0, 1}) call("step " + std::to_string(step), 0, source);
  }
  EXPECT_LE(table.size(), BarrierTable::kMostKept + 1);
  for (int source : {0, 1}) call("step 0", 1, source);
  for (int source : {0, 1}) call("step 19999", 1, source);
  EXPECT_EQ(answers.size(), 40004u);
  for (const Status& status : answers) EXPECT_TRUE(status.ok()) << status.message;
}

// Watching.

TEST_F(StateMachineTest, Watch_AnswersAtOnceOrAtTheNextChange) {
  make(2);
  auto first = watch(-1);
  EXPECT_EQ(first.code(), Code::kOk);
  ASSERT_EQ(first.value().task_state_size(), 2);
  EXPECT_EQ(first.value().task_state(0).incarnation(), 0u);
  auto next = watch(first.value().version_number());
  EXPECT_TRUE(next.open());
  join(0), join(1);
  EXPECT_EQ(next.value().task_state(1).state(), jax::TASKSTATE_CONNECTED);
  EXPECT_EQ(next.value().task_state(1).incarnation(), 101u);
  EXPECT_GT(next.value().version_number(), first.value().version_number());
  fails(0, "signal 9");
  auto third = watch(next.value().version_number());
  EXPECT_EQ(third.value().task_state(0).error_message(), "signal 9");
  EXPECT_EQ(third.value().task_state(0).error_code(), 14);
}

TEST_F(StateMachineTest, Watch_VersionAboveTheCurrent_IsAnsweredAtOnce) {
  start(1);
  EXPECT_EQ(watch(std::numeric_limits<std::int64_t>::max()).code(), Code::kOk);
}

TEST_F(StateMachineTest, Alive_WaitsForTheLivingTasksOfTheSet) {
  start(4);
  poll(0);
  auto a = alive(0, {0, 1, 2}), other_set = alive(1, {0, 1});
  auto b = alive(1, {2, 1, 0, 0, 99});
  EXPECT_TRUE(a.open());
  auto b2 = alive(1, {2, 1, 0, 0});
  EXPECT_TRUE(a.open());
  fails(2, "signal 9");
  EXPECT_EQ(a.code(), Code::kOk);
  ASSERT_EQ(a.value().alive_task_ids_size(), 2);
  EXPECT_EQ(a.value().alive_task_ids(1), 1);
  EXPECT_EQ(a.value().incarnations(1), 101u);
  EXPECT_EQ(b2.code(), Code::kOk);
  EXPECT_TRUE(b.open()) << "another set";
  EXPECT_TRUE(other_set.open());
  EXPECT_EQ(alive(3, {0}).code(), Code::kInvalidArgument);
}

TEST_F(StateMachineTest, Alive_ACancelledCall_DoesNotCount) {
  start(2);
  auto gone = alive(0, {0, 1});
  machine_->cancel(gone.id);
  EXPECT_EQ(gone.code(), Code::kCancelled);
  auto other = alive(1, {0, 1});
  EXPECT_TRUE(other.open());
  EXPECT_EQ(alive(0, {0, 1}).value().alive_task_ids_size(), 2);
  EXPECT_EQ(other.code(), Code::kOk);
}

/// The record of each call was a set of its own, and each call looked at all.
TEST_F(StateMachineTest, Alive_CallsOfManyTasks_TakeLinearTime) {
  constexpr int kTasks = 1500;
  start(kTasks, seconds(30));
  std::vector<int> all(kTasks);
  std::iota(all.begin(), all.end(), 0);
  std::vector<Reply<jax::GetAliveTasksResponse>> replies;
  const auto began = testing::processor_time();
  for (int task = 0; task < kTasks; ++task) replies.push_back(alive(task, all));
  EXPECT_LT(testing::processor_time() - began, seconds(60)) << "it takes 0.1 s without sanitizers";
  for (const auto& reply : replies) EXPECT_EQ(reply.value().alive_task_ids_size(), kTasks);
}

}  // namespace
}  // namespace lockstep::coordination
