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

#include "lockstep/coordination/client.h"
#include "lockstep/watch/reader.h"

namespace lockstep::runtime {

struct StallWatchOptions {
  double warning = 10;  ///< Seconds of waiting before a word.
  bool says = true;     ///< False where a launcher says it.
  std::optional<std::chrono::seconds> timeout;

  /// Called with who holds up the others, and all words on it, when a stall has lasted longer than `timeout`.
  std::function<void(const std::vector<int>& culprits, const std::string& words)> on_timeout;
};

/// Finds out who holds up the job, without a launcher's help: a process that waits for long asks all others
/// by the job's store what they do, and says who waits for whom. Nothing goes through the store as long as
/// nobody waits. A thread of its own, which answers while the others compute or wait.
class StallWatch {
 public:
  /// `client` must outlive it, and be connected.
  StallWatch(coordination::CoordinationClient& client, std::string host, StallWatchOptions options);
  ~StallWatch();
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  struct Shared;  ///< What an answer of the store may find when this is gone.

  void run();
  void listen(std::int64_t question);
  bool sleep(std::chrono::milliseconds time);  ///< False where it is to end.
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

  std::int64_t question_ = 1;  ///< The next one.
  TimePoint next_ask_{};
  TimePoint quiet_until_{};  ///< Another process asks.
  std::string said_;         ///< What it waited in when it said so; empty: nothing was said.
  TimePoint waits_since_{};  ///< When it said so.
  bool ended_job_ = false;
  std::thread thread_;
};

}  // namespace lockstep::runtime
