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

/// What the communicators of one World share: the peers, and the news that the job has failed.
class Job {
 public:
  /// `wake` is called, by any thread, when whoever waits should look for failures.
  Job(const WorldOptions& options, std::function<void()> wake);

  const WorldOptions& options() const { return options_; }
  Peers& peers() { return peers_; }
  Lanes& lanes() { return lanes_; }
  WaitTable& waits() { return waits_; }
  Handouts& handouts() { return handouts_; }
  const WayTable& ways() const { return ways_; }

  /// Only the first call counts. The peers are told of a PeerFailure.
  void abort(std::exception_ptr cause);

  bool aborted() const { return aborted_.load(std::memory_order_acquire); }

  /// Throws what `abort` was given, if it was called.
  void check() const {
    if (aborted_.load(std::memory_order_acquire)) std::rethrow_exception(cause_);
  }

  /// Tells all that the processes diverge: `signatures` are what each of some did, by process.
  void tell_divergence(const std::vector<std::pair<int, std::uint64_t>>& signatures, const std::string& what);

  /// Throws PeerFailure if the process has died or left, and what `abort` is given meanwhile: that is waited
  /// for, because whoever calls it may know how the process died. But nothing where it has done its part
  /// before: `is_awaited`, if it is given, is asked after the look at the process.
  void check_peer(int process, const std::string& doing, const std::function<bool()>& is_awaited = {});

 private:
  void end(std::exception_ptr cause);
  HandoutWays handout_ways();
  bool connect(int process);
  bool is_there(int process);

  const WorldOptions options_;
  const WayTable ways_;
  const std::function<void()> wake_;
  WaitTable waits_;
  Handouts handouts_;
  std::atomic<bool> aborted_ = false;
  std::exception_ptr cause_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Lanes lanes_;
  Peers peers_;  // Last: its thread uses the others.
};

}  // namespace lockstep::collectives
