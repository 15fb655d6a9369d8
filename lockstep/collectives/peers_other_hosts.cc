#include <sstream>

#include "lockstep/base/fail.h"
#include "lockstep/collectives/peers_impl.h"

namespace lockstep::collectives {

void Peers::Impl::connect_to_other_host(int process, steady_clock::time_point start,
                                        const std::function<void()>& check) {
  std::optional<std::string> text;
  {
    std::lock_guard lock(mutex_);
    if (peers_[process].address) return;
  }
  while (!text) {
    check();
    try {
      text = options_.store->get(store_key(process), kPoll);
    } catch (const TimeoutError&) {
      const auto waited = steady_clock::now() - start;
      if (waited > options_.timeout) throw_late(process, waited);
    }
  }
  const Address target = Address::decode(*text);
  if (control_ == nullptr || target.control == "-") {
    fail(
        "process {} of {} (host {}) and process {} of {} (host {}) do not agree on whether the job is on "
        "several "
        "hosts: are all processes built from the same version of Lockstep?",
        options_.process_index, options_.process_count, own_.host, process, options_.process_count,
        target.host);
  }
  std::lock_guard lock(mutex_);
  Peer& peer = peers_[process];
  peer.address = target;
  peer.host = target.host;
  peer.token = target.token;
  if (peer.endpoint < 0) peer.endpoint = connect_control(process, from_hex(target.control));
  say_hello(peer, "ask");
}

int Peers::Impl::connect_control(int process, const std::string& address) {
  try {
    const int endpoint = control_->connect(address);
    endpoint_process_[endpoint] = process;
    return endpoint;
  } catch (const Error& error) {
    Peer& peer = peers_[process];
    peer.trouble = error.what();
    if (peer.state == PeerState::kUnknown) peer.state = PeerState::kUnreachable;
    return -1;
  }
}

void Peers::Impl::say_hello(const Peer& peer, const char* wish) {
  if (peer.endpoint < 0) return;
  const std::string text = fmt::format("{} {} {} {}", wish, own_.token, own_.host, own_.control);
  control_->send(peer.endpoint, pack(peer.token, own_message(MessageType::kHello, text)));
  wake_listener();
}

void Peers::Impl::hear_from_other_hosts() {
  if (control_ == nullptr) return;
  ControlChannel::News news = control_->listen();
  for (const std::string& bytes : news.messages) {
    Message message;
    if (!unpack(own_.token, bytes, message)) continue;  // A stranger, or of another attempt.
    const int from = message.header.from;
    if (from < 0 || from >= options_.process_count || !is_remote(options_, from)) continue;
    if (message.header.type == MessageType::kHello) {
      greet_other_host(from, message);
    } else if (message.header.type == MessageType::kAsk) {
      const Message answer = own_message(MessageType::kWaits, encode(events_.waits()));
      std::lock_guard lock(mutex_);
      if (peers_[from].endpoint >= 0) control_->send(peers_[from].endpoint, pack(peers_[from].token, answer));
    } else {
      heed(from, message);
    }
  }
  for (auto [endpoint, why] : news.broken) {
    int process;
    bool never_connected;
    {
      std::lock_guard lock(mutex_);
      const auto it = endpoint_process_.find(endpoint);
      if (it == endpoint_process_.end()) continue;  // It could not even be made.
      process = it->second;
      Peer& peer = peers_[process];
      peer.endpoint = -1;
      peer.trouble = why;
      never_connected = peer.state == PeerState::kUnknown;
      if (never_connected) peer.state = PeerState::kUnreachable;
    }
    if (!never_connected) lose(process, PeerState::kDied);
  }
  if (!news.messages.empty() || !news.broken.empty()) changed_.notify_all();
  if (!news.messages.empty()) wake_listener();  // What was answered is still to be moved.
}

void Peers::Impl::greet_other_host(int process, const Message& message) {
  std::string wish, token, host, control;
  std::istringstream(message.text) >> wish >> token >> host >> control;
  std::lock_guard lock(mutex_);
  Peer& peer = peers_[process];
  peer.pid = message.header.pid;
  peer.host = host;
  peer.token = token;
  if (peer.state == PeerState::kUnknown || peer.state == PeerState::kUnreachable) {
    peer.state = PeerState::kConnected;
  }
  if (peer.endpoint < 0) peer.endpoint = connect_control(process, from_hex(control));
  if (wish == "ask") say_hello(peer, "answer");
  if (left_ && peer.endpoint >= 0)
    control_->send(peer.endpoint, pack(peer.token, own_message(MessageType::kBye, "")));
}

}  // namespace lockstep::collectives
