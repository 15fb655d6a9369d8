#include <cerrno>

#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"
#include "lockstep/collectives/peers_impl.h"

namespace lockstep::collectives {

void Peers::Impl::connect_to_lower_peers() {
  block_signals();
  for (int process = 0; process < options_.process_index && !stop_; ++process) {
    if (is_remote(options_, process)) continue;
    const auto start = steady_clock::now();
    std::optional<std::string> text;
    while (!text && !stop_ && steady_clock::now() - start < options_.timeout) {
      try {
        // Short, so that this thread ends soon after it is asked to.
        text = options_.store->get(store_key(process), std::chrono::milliseconds(250));
      } catch (const TimeoutError&) {
      } catch (const std::exception& error) {
        logging::debug("collectives: the address of process {} is not to be had: {}", process, error.what());
        return;
      }
    }
    if (text && !stop_) connect_to(process, Address::decode(*text));
  }
}

void Peers::Impl::connect_to(int process, const Address& target) {
  bool gone = false;
  FileDescriptor fd = open_socket();
  auto [address, size] = socket_address(target.name);
  int result;
  while ((result = connect(fd.get(), reinterpret_cast<sockaddr*>(&address), size)) != 0 && errno == EINTR) {
  }
  {
    std::lock_guard lock(mutex_);
    Peer& peer = peers_[process];
    peer.host = target.host;
    if (result != 0 || !same_user(fd.get())) {
      // Refused in the same place: it was there, and is not any more.
      gone = target.place == own_.place && result != 0;
      if (peer.state == PeerState::kUnknown) peer.state = gone ? PeerState::kDied : PeerState::kUnreachable;
    } else {
      fresh_.push_back(unix_connection(std::move(fd), process));
      fresh_.back()->send(own_message(MessageType::kHello, target.token));
    }
  }
  changed_.notify_all();
  wake_listener();
  if (gone) events_.on_loss(process, PeerState::kUnknown);
}

}  // namespace lockstep::collectives
