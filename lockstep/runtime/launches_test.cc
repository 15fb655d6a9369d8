// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/launches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <thread>

#include "lockstep/base/error.h"

namespace lockstep::runtime {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Launch = Launches::Launch;

constexpr Launches::What kTrain = {"train", {"train.cc", 10, "main"}, true};
constexpr Launches::What kEvaluate = {"evaluate", {"eval.cc", 20, "main"}, true};
constexpr Launches::What kLocal = {"local", {"local.cc", 30, "main"}, false};

struct Recorded {
  std::vector<std::string> messages;
  Launches launches{4, "process 1 of 2", [this](const std::string& message) { messages.push_back(message); }};
};

TEST(Launches, OverSeveralProcesses_TwoAtATime_AreAnErrorThatNamesBoth) {
  Recorded recorded;
  const std::vector<int> devices = {0, 1}, others = {1, 2};
  const Launch train(recorded.launches, devices, kTrain);
  std::string message;
  std::jthread([&] {
    try {
      const Launch evaluate(recorded.launches, others, kEvaluate);
    } catch (const DivergenceError& error) {
      message = error.what();
    }
  }).join();
  EXPECT_THAT(message, AllOf(HasSubstr("on process 1 of 2 one thread launched evaluate (at eval.cc:20) while "
                                       "another was in train (at train.cc:10)"),
                             HasSubstr("Launch them from one thread")));
  EXPECT_EQ(recorded.messages, std::vector<std::string>{message});
  // The devices that the refused launch had taken are free.
  const std::vector<int> last = {2};
  const Launch free(recorded.launches, last, kEvaluate);
}

TEST(Launches, OnOtherDevices_MayRunAtTheSameTime) {
  Recorded recorded;
  const std::vector<int> devices = {0, 2}, others = {1, 3};
  const Launch train(recorded.launches, devices, kTrain);
  const Launch evaluate(recorded.launches, others, kEvaluate);
  EXPECT_TRUE(recorded.messages.empty());
}

TEST(Launches, WithinAProcess_OnSharedDevices_RunOneAfterTheOther) {
  Recorded recorded;
  constexpr int kThreads = 4, kRounds = 2000;
  std::vector<int> counts(4);  // Not atomic: one launch at a time counts on a device.
  std::barrier start(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        std::vector<int> devices = {thread, (thread + 1) % 4};
        std::ranges::sort(devices);
        start.arrive_and_wait();
        for (int round = 0; round < kRounds; ++round) {
          // One thread launches over processes, so that no two such launches meet.
          const Launch launch(recorded.launches, devices, thread == 0 ? kTrain : kLocal);
          for (int device : devices) ++counts[static_cast<std::size_t>(device)];
        }
      });
    }
  }
  EXPECT_EQ(counts, std::vector<int>(4, 2 * kRounds));
  EXPECT_TRUE(recorded.messages.empty());
}

TEST(Launches, OverSeveralProcesses_OneThreadAfterTheOther_IsNoError) {
  Recorded recorded;
  const std::vector<int> devices = {0};
  for (int round = 0; round < 20; ++round) {
    std::jthread([&] {
      const Launch launch(recorded.launches, devices, round % 2 == 0 ? kTrain : kEvaluate);
    }).join();
  }
  EXPECT_TRUE(recorded.messages.empty());
}

/// Launches as fast as they can: an error, or one after the other, and never two at a time.
TEST(Launches, OverSeveralProcesses_FromManyThreads_NeverRunTwoAtATime) {
  int inside = 0;  // Not atomic likewise.
  Launches launches(1, "process 0 of 2", [](const std::string&) {});
  const std::vector<int> devices = {0};
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&] {
        for (int round = 0; round < 2000; ++round) {
          try {
            const Launch launch(launches, devices, kTrain);
            ++inside;
            EXPECT_EQ(inside, 1);
            --inside;
          } catch (const DivergenceError&) {
            continue;
          }
        }
      });
    }
  }
  EXPECT_EQ(inside, 0);
}

}  // namespace
}  // namespace lockstep::runtime
