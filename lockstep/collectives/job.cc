// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/job.h"

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/collectives/minority.h"

namespace lockstep::collectives {

Job::Job(const WorldOptions& options, std::function<void()> wake)
    : options_(options),
      algorithms_(options.algorithms),
      wake_(std::move(wake)),
      handouts_(handout_ways()),
      lanes_(options_, [this](std::exception_ptr cause) { end(std::move(cause)); }),
      peers_(
          options_, lanes_,
          {.on_loss =
               [this](int process, PeerState how) {
                 // Once the first cause is known, further losses are its consequences.
                 if (how != PeerState::kLeft && options_.on_loss && !aborted_) {
                   options_.on_loss(process, how == PeerState::kUnknown, "");
                 }
                 lanes_.wake();
                 wake_();
               },
           .on_divergence =
               [this](const std::string& message) { end(std::make_exception_ptr(DivergenceError(message))); },
           .on_failure =
               [this](const std::string& message) { end(std::make_exception_ptr(PeerFailure(message))); },
           .waits = [this] { return waits_.list(); },
           .on_want = [this](int process, const std::string& text) { handouts_.heed_want(process, text); },
           .on_given = [this](int process, const std::string& text,
                              FileDescriptor fd) { handouts_.heed_given(process, text, std::move(fd)); },
           .on_error = [this](std::exception_ptr cause) { end(std::move(cause)); }}) {
  if (spans_hosts(options_) && options_.carries_data)
    logging::debug("collectives: algorithms between hosts:\n{}", algorithms_.to_string());
}

HandoutWays Job::handout_ways() {
  return {.is_remote = [this](int process) { return collectives::is_remote(options_, process); },
          .connect = [this](int process) { return connect(process); },
          .is_there = [this](int process) { return is_there(process); },
          .want = [this](int process, const std::string& text) { peers_.want(process, text); },
          .given = [this](int process, const std::string& text, int fd) { peers_.given(process, text, fd); }};
}

bool Job::connect(int process) {
  try {
    peers_.wait_connected(process, [this] { check(); });
    return true;
  } catch (const PeerFailure&) {
    check();
    return false;
  }
}

bool Job::is_there(int process) {
  check();
  const PeerState state = peers_.state(process);
  return state != PeerState::kDied && state != PeerState::kLeft;
}

void Job::end(std::exception_ptr cause) {
  {
    std::lock_guard lock(mutex_);
    if (aborted_) return;
    cause_ = std::move(cause);
    aborted_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
  lanes_.wake();
  wake_();
}

void Job::abort(std::exception_ptr cause) {
  if (aborted_) return;
  try {
    std::rethrow_exception(cause);
  } catch (const PeerFailure& failure) {
    // Before this process can end because of it: the others must get the reason before they see that.
    peers_.tell_failure(failure.what());
  } catch (const DivergenceError& divergence) {
    peers_.tell_divergence(divergence.what());
  } catch (...) {
    // Only in this process.
  }
  end(std::move(cause));
}

void Job::diverge(const std::vector<std::pair<int, std::uint64_t>>& signatures, const std::string& what) {
  if (options_.on_divergence) options_.on_divergence(minority(signatures), what);
  abort(std::make_exception_ptr(DivergenceError(what)));
  throw DivergenceError(what);
}

void Job::check_peer(int process, const std::string& doing, const std::function<bool()>& is_awaited) {
  const PeerState state = peers_.state(process);
  // After looking at the state: a message that the peer sent before it left has priority.
  check();
  if (state != PeerState::kDied && state != PeerState::kLeft) return;
  if (is_awaited && !is_awaited()) return;
  if (options_.on_loss) options_.on_loss(process, state == PeerState::kLeft, doing);
  if (options_.on_loss || state == PeerState::kDied) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, options_.abort_grace, [&] { return aborted_.load(); });
  }
  check();
  peers_.throw_if_lost(process, doing);
}

}  // namespace lockstep::collectives
