// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/coordination/state/state_machine_test.h"

// A coordinator that stays for later starts of its job.

namespace lockstep::coordination {
namespace {

using ::testing::HasSubstr;

class KeepTest : public StateMachineTest {
 protected:
  void stay_for(int num_tasks, int attempt = 0) {
    ServerOptions options;
    options.num_processes = num_tasks;
    options.identity = {"job", attempt, ""};
    options.register_timeout = seconds(60);
    options.heartbeat_timeout = seconds(10);
    options.shutdown_timeout = seconds(30);
    options.keep = true;
    machine_ = std::make_unique<StateMachine>(options, clock_, kService);
  }
  Reply<std::uint64_t> come(int task, std::uint64_t incarnation, int attempt = 0) {
    return join(task, incarnation, {.attempt = attempt});
  }
};

TEST_F(KeepTest, AfterAllHaveLeft_RegisteringBeginsANewStart) {
  stay_for(2);
  auto first = come(0, 1);
  come(1, 2);
  EXPECT_EQ(first.value(), kService);
  insert("key", "of the first start");
  barrier(0), barrier(1);
  leave(0), leave(1);
  EXPECT_TRUE(machine_->all_left());

  auto a = come(1, 3);
  EXPECT_TRUE(a.open()) << "it waits for the others, as at any start";
  EXPECT_FALSE(machine_->all_left());
  auto b = come(0, 4);
  EXPECT_EQ(a.code(), Code::kOk);
  EXPECT_EQ(a.value(), b.value());
  EXPECT_NE(a.value(), kService);
  service_ = a.value();
  EXPECT_EQ(try_get("key").code(), Code::kNotFound);
  const auto meeting = barrier(0);
  barrier(1);
  EXPECT_EQ(meeting.code(), Code::kOk) << "a barrier of the same name begins anew";
  service_ = kService;
  EXPECT_EQ(try_get("key").code(), Code::kInternal) << "a call of the first start";
}

TEST_F(KeepTest, AfterAFailure_RegisteringAgainBeginsANewStart) {
  stay_for(3);
  for (int i = 0; i < 3; ++i) come(i, 10 + static_cast<std::uint64_t>(i));
  auto polling = poll(0);
  auto waiting = get("never");
  fails(1, "process 1 died: signal 9");
  EXPECT_EQ(polling.code(), Code::kUnavailable);
  EXPECT_EQ(come(0, 10).code(), Code::kOk) << "the same process, which has not ended yet";
  auto again = come(1, 21);
  EXPECT_TRUE(again.open());
  EXPECT_EQ(waiting.code(), Code::kAborted);
  EXPECT_FALSE(machine_->first_failure());
  come(0, 20), come(2, 22);
  EXPECT_EQ(again.code(), Code::kOk);
  EXPECT_EQ(heartbeat(2, 12).code(), Code::kInternal) << "left over from the first start";
}

TEST_F(KeepTest, DuringAStart_RegisteringAgainIsRefused) {
  stay_for(2);
  come(0, 1), come(1, 2);
  EXPECT_EQ(come(1, 3).code(), Code::kAborted);
}

TEST_F(KeepTest, ALaterAttemptBeginsAtOnce_AndAnEarlierOneIsRefused) {
  stay_for(2);
  come(0, 1), come(1, 2);
  auto old = poll(0);
  auto later = come(0, 3, 1);
  EXPECT_EQ(old.code(), Code::kAborted);
  auto left_over = come(1, 4, 0);
  EXPECT_EQ(left_over.code(), Code::kPermissionDenied);
  EXPECT_THAT(left_over.message(), HasSubstr("belongs to attempt 0 of the job, but attempt 1 has begun"));
  come(1, 5, 1);
  EXPECT_EQ(later.code(), Code::kOk);
}

TEST_F(KeepTest, ProcessesThatDoNotAllRegister_MayTryAgain) {
  stay_for(2);
  come(0, 1);
  pass(seconds(61));
  EXPECT_TRUE(machine_->first_failure());
  auto again = come(0, 2);
  EXPECT_TRUE(again.open());
  come(1, 3);
  EXPECT_EQ(again.code(), Code::kOk);
}

TEST_F(KeepTest, KeepAndRecoverable_AreRefusedTogether) {
  EXPECT_THROW(StateMachine({.recoverable = true, .keep = true}, clock_, kService), InitializationError);
}

}  // namespace
}  // namespace lockstep::coordination
