// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/collectives/handouts.h"
#include "lockstep/collectives/lane.h"
#include "lockstep/collectives/peers.h"
#include "lockstep/collectives/rounds/table.h"
#include "lockstep/collectives/stall.h"
#include "lockstep/collectives/world.h"

namespace lockstep::collectives {

/// Shared by the communicators of a World: the peers, and the state of the job.
class Job {
 public:
  /// `wake` is called, on any thread, when waiting threads should look for failures.
  Job(const WorldOptions& options, std::function<void()> wake);

  const WorldOptions& options() const { return options_; }
  Peers& peers() { return peers_; }
  Lanes& lanes() { return lanes_; }
  WaitTable& waits() { return waits_; }
  Handouts& handouts() { return handouts_; }
  const AlgorithmTable& algorithms() const { return algorithms_; }

  /// Only the first call has an effect. If the cause is a PeerFailure, the peers are told.
  void abort(std::exception_ptr cause);

  bool aborted() const { return aborted_.load(std::memory_order_acquire); }

  /// Throws the cause given to `abort`, if it was called.
  void check() const {
    if (aborted_.load(std::memory_order_acquire)) std::rethrow_exception(cause_);
  }

  /// Ends the job's collectives with DivergenceError, here and in all processes; `signatures` are what some
  /// of the processes did, with their numbers. The coordinator and the others know when it throws.
  [[noreturn]] void diverge(const std::vector<std::pair<int, std::uint64_t>>& signatures,
                            const std::string& what);

  /// If the process has died or left, waits for a cause given to `abort`, whose caller may know how the
  /// process died, and throws that or else PeerFailure. Does nothing if the process has done its part before:
  /// `is_awaited`, if given, is called after checking the process.
  void check_peer(int process, const std::string& doing, const std::function<bool()>& is_awaited = {});

 private:
  void end(std::exception_ptr cause);
  HandoutWays handout_ways();
  bool connect(int process);
  bool is_there(int process);

  const WorldOptions options_;
  const AlgorithmTable algorithms_;
  const std::function<void()> wake_;
  WaitTable waits_;
  Handouts handouts_;
  std::atomic<bool> aborted_ = false;
  std::exception_ptr cause_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Lanes lanes_;
  Peers peers_;  // last, because its thread uses the others
};

}  // namespace lockstep::collectives
