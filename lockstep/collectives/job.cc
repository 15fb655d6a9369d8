#include "lockstep/collectives/job.h"

#include "lockstep/base/error.h"

namespace lockstep::collectives {

Job::Job(const WorldOptions& options, std::function<void(int process)> on_loss)
    : options_(options), peers_(options_, std::move(on_loss)) {}

bool Job::abort(std::exception_ptr cause) {
  {
    std::lock_guard lock(mutex_);
    if (aborted_) return false;
    cause_ = std::move(cause);
    aborted_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
  return true;
}

void Job::check_peer(int process, const std::string& doing) {
  check();
  const PeerState state = peers_.state(process);
  if (state == PeerState::kDied) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, options_.abort_grace, [&] { return aborted_.load(); });
  }
  check();
  peers_.throw_if_lost(process, doing);
}

}  // namespace lockstep::collectives
