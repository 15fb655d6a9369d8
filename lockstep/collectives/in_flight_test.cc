// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/in_flight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::collectives {
namespace {

using ::testing::ElementsAre;

const InFlight::Key kFirst = {7, 0}, kSecond = {7, 1}, kThird = {7, 2};

TEST(InFlight, RunsOneAfterTheOther_OnAnotherThread) {
  InFlight flights;
  std::vector<int> order;
  std::atomic<bool> go_on = false;
  std::thread::id there;
  flights.start(kFirst, [&] {
    go_on.wait(false);
    order.push_back(1);
    there = std::this_thread::get_id();
  });
  flights.start(kSecond, [&] { order.push_back(2); });
  go_on = true;
  go_on.notify_all();
  flights.finish(kSecond);
  EXPECT_THAT(order, ElementsAre(1, 2));
  flights.finish(kFirst);
  EXPECT_NE(there, std::this_thread::get_id());
}

TEST(InFlight, AnAwaitedCollective_CanBeStartedAgain) {
  InFlight flights;
  int done = 0;
  for (int round = 1; round <= 100; ++round) {
    flights.start(kFirst, [&] { ++done; });
    flights.finish(kFirst);
    EXPECT_EQ(done, round);
  }
}

TEST(InFlight, Drain_WaitsForAllThatWereStarted) {
  InFlight flights;
  flights.drain();
  std::atomic<int> done = 0;
  for (const InFlight::Key& key : {kFirst, kSecond, kThird}) {
    flights.start(key, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ++done;
    });
  }
  flights.drain();
  EXPECT_EQ(done, 3);
  for (const InFlight::Key& key : {kThird, kFirst, kSecond}) flights.finish(key);
}

/// XLA ends the program at the first error, and awaits nothing more.
TEST(InFlight, AfterAnError_NothingIsInFlight) {
  InFlight flights;
  std::atomic<bool> go_on = false;
  bool third_began = false;
  flights.start(kFirst, [&] { go_on.wait(false); });
  flights.start(kSecond, [] { throw std::runtime_error("process 3 died"); });
  flights.start(kThird, [&] { third_began = true; });
  go_on = true;
  go_on.notify_all();
  flights.finish(kFirst);
  try {
    flights.finish(kSecond);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "process 3 died");
  }
  EXPECT_FALSE(third_began);
  EXPECT_THROW(flights.finish(kThird), Error);
  bool done = false;
  flights.start(kThird, [&] { done = true; });
  flights.finish(kThird);
  EXPECT_TRUE(done);
}

TEST(InFlight, AfterAnError_TheNextOneFailsWithIt) {
  InFlight flights;
  std::atomic<bool> go_on = false;
  flights.start(kFirst, [&] {
    go_on.wait(false);
    throw std::runtime_error("process 3 died");
  });
  flights.start(kSecond, [] {});
  go_on = true;
  go_on.notify_all();
  EXPECT_THROW(flights.finish(kSecond), std::runtime_error);
}

TEST(InFlight, StartedTwice_OrNotStarted_IsAnError) {
  InFlight flights;
  EXPECT_THROW(flights.finish(kFirst), Error);
  std::atomic<bool> go_on = false;
  flights.start(kFirst, [&] { go_on.wait(false); });
  EXPECT_THROW(flights.start(kFirst, [] {}), Error);
  go_on = true;
  go_on.notify_all();
  flights.finish(kFirst);
}

}  // namespace
}  // namespace lockstep::collectives
