// SPDX-License-Identifier: Apache-2.0
// Tests of what the other processes see of one that forks, and of one whose launch fails.

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <limits>

#include "lockstep/jit/debug.h"
#include "lockstep/jit/pmap.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/test_jobs.h"
#include "lockstep/runtime/initialize.h"

namespace lockstep {
namespace {

using test::job;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::Processes;
using testing::ProcessResult;
using testing::run_processes;
using testing::say;

float sum_over_all() {
  return pmap([](Array x) { return psum(x, "i"); })(ones({local_device_count()})).to_host<float>()[0];
}

LOCKSTEP_CHILD(forks_children_that_end) {
  initialize();
  EXPECT_EQ(sum_over_all(), 2);
  for (int status : {0, 3}) {
    const pid_t child = fork();
    if (child == 0) {
      try {
        sum_over_all();
      } catch (const Error& error) {
        say(std::string("as expected: ") + error.what());
      }
      std::exit(status);
    }
    int ended = -1;
    waitpid(child, &ended, 0);
    EXPECT_EQ(WEXITSTATUS(ended), status);
    EXPECT_EQ(sum_over_all(), 2);
  }
}

TEST(ForkedChild, ThatComputesOrEnds_DoesNotAffectItsParentsJob) {
  for (const ProcessResult& result : run_processes(job("forks_children_that_end", 2, 1))) {
    EXPECT_EQ(result.exit_code, 0) << result.log;
    EXPECT_THAT(result.log, ContainsRegex("a computation was started in a process that was forked after "
                                          "initialize\\(\\) from process [01] of 2"));
  }
}

LOCKSTEP_CHILD(forks_a_child_that_lives_on) {
  initialize();
  EXPECT_EQ(sum_over_all(), 2);
  if (process_index() == 1) {
    const pid_t child = fork();
    if (child == 0) {
      pause();
      _exit(0);
    }
    say("forked " + std::to_string(child));
    pause();
  }
  try {
    sum_over_all();
  } catch (const PeerFailure& failure) {
    say(std::string("as expected: ") + failure.what());
    std::_Exit(0);
  }
}

TEST(ForkedChild, ThatLivesOn_DoesNotHideItsParentsDeath) {
  Processes processes(job("forks_a_child_that_lives_on", 2, 1));
  processes.wait_for_line(1, "forked ");
  const std::string log = processes.log(1);
  const pid_t child = std::stoi(log.substr(log.find("forked ") + 7));
  processes.kill(1, SIGKILL);
  processes.wait_for_line(0, "as expected: process 1 ");
  EXPECT_EQ(kill(child, SIGKILL), 0);
}

LOCKSTEP_CHILD(fails_a_check_alone) {
  initialize();
  const float value = process_index() == 1 ? std::numeric_limits<float>::quiet_NaN() : 1.f;
  auto checked = pmap([](Array x) {
    debug::check_finite(x, "the loss");
    return psum(x, "i");
  });
  try {
    checked(full({local_device_count()}, value)).block_until_ready();
    say("nothing was thrown");
  } catch (const Error& error) {
    say(std::string("as expected: ") + error.what());
  }
  // It does not end, as a program that goes on with something else.
  if (process_index() == 1) pause();
}

TEST(LaunchThatFails, InOneProcess_EndsTheWaitOfTheOthers) {
  for (int devices_each : {1, 2}) {
    Processes processes(job("fails_a_check_alone", 2, devices_each));
    processes.wait_for_line(1, "as expected: [check_finite] the loss ");
    processes.wait_for_line(0, "as expected: ");
    EXPECT_THAT(processes.log(0), ContainsRegex("process 1 .*ended with an error: its launch of .* failed "
                                                "\\(at lifecycle_processes_test.cc:[0-9]+\\): .check_finite. "
                                                "the loss"));
    processes.kill(1, SIGKILL);
  }
}

}  // namespace
}  // namespace lockstep
