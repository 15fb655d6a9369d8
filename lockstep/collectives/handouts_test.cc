// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/handouts.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/collectives/limits.h"

namespace lockstep::collectives {
namespace {

using namespace std::chrono_literals;

constexpr TakeLimits kLimits{20s, 20s};

/// Processes whose handouts reach each other, by one thread; each `locals` of them are on one host.
class FakeJob {
 public:
  FakeJob(int processes, int locals) {
    for (int self = 0; self < processes; ++self) {
      all_.push_back(std::make_unique<Handouts>(HandoutWays{
          .is_remote = [=](int process) { return process / locals != self / locals; },
          .connect = [this](int) { return !gone; },
          .is_there = [this](int) { return !gone; },
          .want = [this, self](
                      int process,
                      const std::string& text) { post([=, this] { of(process).heed_want(self, text); }); },
          .given =
              [this, self](int process, const std::string& text, int fd) {
                EXPECT_LE(text.size(), kMaxText);
                ++messages;
                const int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
                post([=, this] { of(process).heed_given(self, text, FileDescriptor(copy)); });
              }}));
    }
    thread_ = std::jthread([this](std::stop_token stop) { deliver(stop); });
  }
  Handouts& of(int process) { return *all_[static_cast<std::size_t>(process)]; }

  std::atomic<bool> gone = false;
  std::atomic<std::size_t> messages = 0;

 private:
  void post(std::function<void()> message) {
    std::lock_guard lock(mutex_);
    posted_.push_back(std::move(message));
    changed_.notify_all();
  }
  void deliver(std::stop_token stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [this] { return !posted_.empty(); })) {
      const auto message = std::move(posted_.front());
      posted_.pop_front();
      lock.unlock();
      message();
      lock.lock();
    }
  }

  std::vector<std::unique_ptr<Handouts>> all_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> posted_;
  std::jthread thread_;
};

std::string some_bytes(std::size_t size) {
  std::minstd_rand random(1);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

void wait_until_wanted(Handouts& handouts) {
  while (handouts.held().second == 0) std::this_thread::sleep_for(1ms);
}

TEST(Handouts, ReachEarlyAndLateRequests_WithinAndBetweenHosts) {
  // The longest takes several windows, the last of them in part.
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{100'000}, 3 * Handouts::kWindow + 5}) {
    for (const int locals : {1, 2}) {
      FakeJob job(2, locals);
      const std::string bytes = some_bytes(size);
      auto early = std::async(std::launch::async, [&] { return job.of(1).take(0, "early", kLimits); });
      wait_until_wanted(job.of(0));
      job.of(0).begin("early");
      job.of(0).give("early", SealedBytes::copy_of(bytes), {1});
      job.of(0).give("late", SealedBytes::copy_of(bytes), {1});
      for (const Taken& taken : {early.get(), job.of(1).take(0, "late", kLimits)}) {
        ASSERT_EQ(taken.outcome, TakeOutcome::kTaken);
        EXPECT_EQ(taken.bytes->view(), bytes);
      }
      while (job.of(0).held().first != 0) std::this_thread::sleep_for(1ms);  // all have taken them
    }
  }
}

TEST(Handouts, WithinAHost_GoInOneMessageOfAnySize) {
  FakeJob job(2, 2);
  job.of(0).give("key", SealedBytes::copy_of(some_bytes(8 << 20)), {1});
  EXPECT_EQ(job.of(1).take(0, "key", kLimits).bytes->view().size(), 8u << 20);
  EXPECT_EQ(job.messages, 1u);
}

TEST(Handouts, NotBegunGivenUpLateOrLost_EndTheWait) {
  FakeJob job(2, 2);
  EXPECT_EQ(job.of(1).take(0, "never", {10ms, 20s}).outcome, TakeOutcome::kNotBegun);
  while (job.of(0).held().second != 0) std::this_thread::sleep_for(1ms);  // that it was wanted is forgotten

  job.of(0).begin("begun");
  EXPECT_EQ(job.of(1).take(0, "begun", {20s, 10ms}).outcome, TakeOutcome::kLate);

  auto waiting = std::async(std::launch::async, [&] { return job.of(1).take(0, "begun", kLimits); });
  std::this_thread::sleep_for(10ms);
  job.of(0).give_up("begun");
  EXPECT_EQ(waiting.get().outcome, TakeOutcome::kGone);
  EXPECT_EQ(job.of(1).take(0, "begun", kLimits).outcome, TakeOutcome::kGone);

  job.of(0).begin("begun");
  auto lost = std::async(std::launch::async, [&] { return job.of(1).take(0, "begun", kLimits); });
  job.gone = true;
  EXPECT_EQ(lost.get().outcome, TakeOutcome::kGone);
}

TEST(Handouts, MoreHandoutsThanTheLimit_OnlyTheLastAreHeld) {
  FakeJob job(2, 2);
  const int most = static_cast<int>(Handouts::kMostHeld);
  for (int i = 0; i <= most; ++i)
    job.of(0).give("key" + std::to_string(i), SealedBytes::copy_of("bytes"), {1});
  EXPECT_EQ(job.of(0).held().first, Handouts::kMostHeld);
  EXPECT_EQ(job.of(1).take(0, "key0", kLimits).outcome, TakeOutcome::kGone) << "at once";
  EXPECT_EQ(job.of(1).take(0, "key1", kLimits).outcome, TakeOutcome::kTaken);
  job.of(0).begin("key0");
  job.of(0).give("key0", SealedBytes::copy_of("again"), {1});
  EXPECT_EQ(job.of(1).take(0, "key0", kLimits).bytes->view(), "again");
}

TEST(SealedBytes, CannotBeChanged) {
  const auto bytes = SealedBytes::copy_of("bytes");
  EXPECT_LT(pwrite(bytes->descriptor(), "x", 1, 0), 0);
  EXPECT_LT(ftruncate(bytes->descriptor(), 1), 0);
  EXPECT_THROW(SealedBytes::open(FileDescriptor(memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING))),
               Error);
  SealedBytes::Writer writer(2);
  EXPECT_THROW(writer.append("three"), Error);
}

}  // namespace
}  // namespace lockstep::collectives
