// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"
#include "lockstep/collectives/peers_impl.h"

namespace lockstep::collectives {
namespace {

using std::chrono::milliseconds;

/// So long a process that does not listen yet is tried without asking the store.
constexpr milliseconds kMeeting(500);
constexpr milliseconds kFirstPause(1), kLongestPause(20);

}  // namespace

void Peers::Impl::connect_to_lower_peers() {
  block_signals();
  std::vector<int> processes;
  for (int process = 0; process < options_.process_index; ++process)
    if (!is_remote(options_, process)) processes.push_back(process);
  if (!options_.meeting.empty()) connect_at_meeting(processes);
  for (const int process : processes) {
    if (stop_) return;
    connect_by_store(process);
  }
}

void Peers::Impl::connect_at_meeting(std::vector<int>& processes) {
  const auto start = steady_clock::now();
  for (milliseconds pause = kFirstPause; !stop_; pause = std::min(2 * pause, kLongestPause)) {
    std::erase_if(processes, [&](int process) {
      const Address target{name_at(options_.meeting, process), token_at(options_.meeting, process), own_.host,
                           own_.place};
      return try_to_connect(process, target) == 0;
    });
    if (processes.empty() || steady_clock::now() - start > kMeeting) return;
    std::this_thread::sleep_for(pause);
  }
}

void Peers::Impl::connect_by_store(int process) {
  const auto start = steady_clock::now();
  std::optional<std::string> text;
  while (!text && !stop_ && steady_clock::now() - start < options_.timeout) {
    try {
      // Short, so that this thread ends soon after it is asked to.
      text = options_.store->get(store_key(process), milliseconds(250));
    } catch (const TimeoutError&) {
    } catch (const std::exception& error) {
      logging::debug("collectives: cannot get the address of process {}: {}", process, error.what());
      return;
    }
  }
  if (!text) return;
  const Address target = Address::decode(*text);
  while (!stop_ && steady_clock::now() - start < options_.timeout && !connect_to(process, target))
    std::this_thread::sleep_for(kLongestPause);
}

int Peers::Impl::try_to_connect(int process, const Address& target) {
  FileDescriptor fd = open_socket();
  fcntl(fd.get(), F_SETFL, O_NONBLOCK);  // a stopped process may have a full queue
  auto [address, size] = socket_address(target.name);
  int result;
  while ((result = connect(fd.get(), reinterpret_cast<sockaddr*>(&address), size)) != 0 && errno == EINTR) {
  }
  if (result != 0) return errno;
  {
    std::lock_guard lock(mutex_);
    Peer& peer = peers_[process];
    peer.host = target.host;
    if (same_user(fd.get())) {
      fresh_.push_back(unix_connection(std::move(fd), process));
      fresh_.back()->send(own_message(MessageType::kHello, target.token));
    } else if (peer.state == PeerState::kUnknown) {
      peer.state = PeerState::kUnreachable;
    }
  }
  changed_.notify_all();
  wake_listener();
  return 0;
}

bool Peers::Impl::connect_to(int process, const Address& target) {
  const int error = try_to_connect(process, target);
  if (error == 0 || error == EAGAIN) return error == 0;
  // Refused in the same place: it was there, and is not any more.
  const bool gone = target.place == own_.place;
  {
    std::lock_guard lock(mutex_);
    Peer& peer = peers_[process];
    peer.host = target.host;
    if (peer.state == PeerState::kUnknown) peer.state = gone ? PeerState::kDied : PeerState::kUnreachable;
  }
  changed_.notify_all();
  if (gone) events_.on_loss(process, PeerState::kUnknown);
  return true;
}

bool Peers::Impl::have_room_here() {
  // A process of the job says who it is as soon as it runs.
  const auto is_unknown = [](const auto& connection) { return connection->is_unknown_here(); };
  const auto unknown = static_cast<std::size_t>(std::ranges::count_if(connections_, is_unknown));
  if (unknown < static_cast<std::size_t>(options_.process_count) + kMostStrangers) return true;
  const auto first = std::ranges::find_if(connections_, is_unknown);
  const auto may_go = (*first)->begun + kLeastTimeToProve;
  if (steady_clock::now() < may_go) {
    accept_again_ = may_go;
    return false;
  }
  connections_.erase(first);
  return true;
}

}  // namespace lockstep::collectives
