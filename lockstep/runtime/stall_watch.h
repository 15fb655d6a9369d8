// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/coordination/client/client.h"
#include "lockstep/watch/reader.h"

namespace lockstep::runtime {

struct StallWatchOptions {
  double warning = 10;  ///< in seconds of waiting
  bool says = true;     ///< false if a launcher prints the warning
  std::optional<std::chrono::seconds> timeout;

  /// Called when a stall has lasted longer than `timeout`, with the processes that block the others and the
  /// full message.
  std::function<void(const std::vector<int>& culprits, const std::string& words)> on_timeout;
};

/// Detects stalls of the job without a launcher: a process that has waited for long asks all others, through
/// the job's store, what they do, and reports which process waits for which. As long as no process waits, the
/// store is not used. Runs on a thread of its own, which also answers while this process computes or waits.
class StallWatch {
 public:
  /// `client` must be connected and outlive this object.
  StallWatch(coordination::CoordinationClient& client, std::string host, StallWatchOptions options);
  ~StallWatch();
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  struct Shared;  ///< state for answers of the store that arrive after this object is gone

  void run();
  void listen(std::int64_t question);
  bool sleep(std::chrono::milliseconds time);  ///< false if the thread is to end
  double own_wait();
  watch::ProcessReport own_report();
  void answer(std::int64_t question);
  std::vector<watch::ProcessReport> ask();
  void look_into(double waited);
  void say_end();

  coordination::CoordinationClient& client_;
  const std::string host_;
  const StallWatchOptions options_;
  const std::shared_ptr<Shared> shared_;
  watch::Reader reader_;

  std::int64_t question_ = 1;  ///< the number of the next question
  TimePoint next_ask_{};
  TimePoint quiet_until_{};  ///< another process is asking until then
  std::string said_;         ///< the wait that it last reported; empty: none
  TimePoint waits_since_{};  ///< the start of that wait
  bool ended_job_ = false;
  std::thread thread_;
};

}  // namespace lockstep::runtime
