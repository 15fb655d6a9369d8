// SPDX-License-Identifier: Apache-2.0
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "lockstep/base/fail.h"
#include "lockstep/base/limits.h"
#include "lockstep/base/log.h"
#include "lockstep/collectives/interfaces.h"
#include "lockstep/collectives/lane.h"
#include "lockstep/collectives/peers_impl.h"

namespace lockstep::collectives {
namespace {

FileDescriptor tcp_socket(const SocketAddress& address) {
  FileDescriptor fd(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) fail("cannot open a TCP socket: {}", describe_error(errno));
  prepare_connection(fd.get());
  return fd;
}

}  // namespace

void Peers::Impl::listen_to_other_hosts() {
  if (!spans_hosts(options_)) return;
  SocketAddress address = own_address(options_.interface, options_.coordinator_address);
  other_hosts_ = tcp_socket(address);
  socklen_t size = address.size;
  if (bind(other_hosts_.get(), address.get(), size) != 0 || listen(other_hosts_.get(), SOMAXCONN) != 0 ||
      getsockname(other_hosts_.get(), address.get(), &size) != 0) {
    fail("cannot listen for processes of other hosts at {}: {}", address.to_string(), describe_error(errno));
  }
  tls_ = tls_between_hosts(options_);
  own_.control = address.to_string();
  own_.protection = tls_ == nullptr        ? Protection::kNone
                    : options_.tls.given() ? Protection::kCertificates
                                           : Protection::kSecret;
  listens_to_hosts_alone_.emplace(other_hosts_.get());
}

bool Peers::Impl::Strangers::have_room(steady_clock::time_point now) const {
  return count < kMostStrangers || now - first_came >= kLeastTimeToProve;
}

Peers::Impl::steady_clock::time_point Peers::Impl::Strangers::next_look(steady_clock::time_point now) const {
  return first_came + (have_room(now) ? kMostTimeToProve : kLeastTimeToProve);
}

Peers::Impl::Strangers Peers::Impl::look_at_strangers() {
  Strangers strangers;
  const auto now = steady_clock::now();
  std::erase_if(connections_, [&](const auto& connection) {
    if (connection->is_proved()) return false;
    // A connection opened by this process has as much time as the other side needs.
    if (!connection->accepted) return false;
    if (now - connection->begun >= kMostTimeToProve) return true;
    if (strangers.count++ == 0) strangers.first_came = connection->begun;
    return false;
  });
  return strangers;
}

void Peers::Impl::end_first_stranger() {
  connections_.erase(std::ranges::find_if(
      connections_, [](const auto& connection) { return connection->accepted && !connection->is_proved(); }));
}

bool Peers::Impl::give_up_a_stranger() {
  const Strangers strangers = look_at_strangers();
  if (strangers.count == 0) return false;
  const auto may_go = strangers.first_came + kLeastTimeToProve;
  if (may_go <= steady_clock::now()) {
    end_first_stranger();
  } else {
    accept_again_ = may_go;
  }
  return true;
}

void Peers::Impl::accept_from_other_hosts() {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    const Strangers strangers = look_at_strangers();
    if (!strangers.have_room(steady_clock::now())) return;
    FileDescriptor fd = accept_at(other_hosts_);
    if (!fd) return;
    if (strangers.count >= kMostStrangers) end_first_stranger();
    prepare_connection(fd.get());
    connections_.push_back(
        tcp_connection(std::move(fd), {options_.job_secret + own_.token, options_.process_index, -1, tls_}));
  }
}

void Peers::Impl::connect_to_other_host(int process, steady_clock::time_point start,
                                        const std::function<void()>& check) {
  {
    std::lock_guard lock(mutex_);
    if (peers_[process].address) return;
  }
  std::optional<std::string> text;
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
  const std::optional<SocketAddress> address = SocketAddress::parse(target.control);
  if (!other_hosts_ || !address) {
    fail(
        "process {} of {} (host {}) and process {} of {} (host {}) do not agree on whether the job is on "
        "several hosts: are all processes built from the same version of Lockstep?",
        options_.process_index, options_.process_count, own_.host, process, options_.process_count,
        target.host);
  }
  if (target.protection != own_.protection) throw_without_common_tls(process, target);
  {
    std::lock_guard lock(mutex_);
    Peer& peer = peers_[process];
    if (std::exchange(peer.address, target)) return;  // Another thread has begun.
    peer.host = target.host;
    if (peer.state == PeerState::kConnected) return;  // It has called first.
  }
  call(process, target, start, check);
}

void Peers::Impl::throw_without_common_tls(int process, const Address& target) const {
  const bool certificates =
      own_.protection == Protection::kCertificates || target.protection == Protection::kCertificates;
  const auto does = [&](Protection protection) {
    if (certificates)
      return protection == Protection::kCertificates ? "has certificates for TLS" : "has none";
    return protection == Protection::kSecret ? "encrypts what it sends to other hosts" : "does not";
  };
  fail(
      "process {} of {} (host {}) {}, but process {} of {} (host {}) {}: set {} for all processes of the "
      "job, or for none",
      options_.process_index, options_.process_count, own_.host, does(own_.protection), process,
      options_.process_count, target.host, does(target.protection),
      certificates ? "LOCKSTEP_TLS_CERTIFICATE, LOCKSTEP_TLS_KEY and LOCKSTEP_TLS_AUTHORITY"
                   : "LOCKSTEP_DATA_TLS=1 (lockstep run --encrypt)");
}

void Peers::Impl::lose_unproved(const Connection& connection) {
  const std::string trouble = connection.trouble();
  if (connection.accepted) {
    if (!trouble.empty()) logging::debug("collectives: a connection was refused: {}", trouble);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    Peer& peer = peers_[connection.process];
    if (peer.state != PeerState::kUnknown) return;
    if (trouble.empty()) {
      peer.call_again = true;
    } else {
      peer.trouble = trouble;
      peer.distrusted = true;
      peer.state = PeerState::kUnreachable;
    }
  }
  changed_.notify_all();
}

void Peers::Impl::call_again(int process, steady_clock::time_point start,
                             const std::function<void()>& check) {
  std::optional<Address> target;
  {
    std::lock_guard lock(mutex_);
    Peer& peer = peers_[process];
    if (peer.state != PeerState::kUnknown) return;
    if (steady_clock::now() - start > kCallsAgain) {
      peer.trouble = "it ends every connection without an answer";
      peer.state = PeerState::kUnreachable;
      return;
    }
    target = peer.address;
  }
  std::this_thread::sleep_for(kPoll);
  call(process, *target, start, check);
}

void Peers::Impl::call(int process, const Address& target, steady_clock::time_point start,
                       const std::function<void()>& check) {
  std::string trouble;
  FileDescriptor fd = connect_by_tcp(process, *SocketAddress::parse(target.control), start, check, trouble);
  std::lock_guard lock(mutex_);
  Peer& peer = peers_[process];
  if (fd) {
    fresh_.push_back(tcp_connection(
        std::move(fd), {options_.job_secret + target.token, options_.process_index, process, tls_}));
    fresh_.back()->send(own_message(MessageType::kHello, own_.host));
    wake_listener();
  } else if (peer.state == PeerState::kUnknown) {
    peer.trouble = trouble;
    peer.state = PeerState::kUnreachable;
  }
}

FileDescriptor Peers::Impl::connect_by_tcp(int process, const SocketAddress& address,
                                           steady_clock::time_point start, const std::function<void()>& check,
                                           std::string& trouble) const {
  FileDescriptor fd = tcp_socket(address);
  NotedLink noted(process);
  const auto begun = steady_clock::now();
  int error = connect(fd.get(), address.get(), address.size) == 0 ? 0 : errno;
  while (error == EINPROGRESS || error == EINTR) {
    pollfd polled{fd.get(), POLLOUT, 0};
    const int ready = poll(&polled, 1, static_cast<int>(kPoll.count()));
    if (ready > 0) {
      socklen_t size = sizeof error;
      if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
      break;
    }
    noted.note(begun);
    check();
    if (steady_clock::now() - start > options_.timeout) error = ETIMEDOUT;
  }
  if (error == 0) return fd;
  trouble = fmt::format("{}: {}", address.to_string(), describe_error(error));
  return {};
}

void Peers::Impl::note_links() {
  const auto now = steady_clock::now();
  if (!noting_ || now < next_note_) return;
  next_note_ = now + kNoteLinks;
  noting_ = false;
  for (std::size_t process = 0; process < peers_.size(); ++process) {
    Peer& peer = peers_[process];
    if (peer.connection == nullptr || !is_remote(options_, static_cast<int>(process))) continue;
    const auto unanswered = peer.confirmations.unanswered(peer.connection->descriptor(), now);
    const bool waits = unanswered != steady_clock::time_point();
    noting_ |= waits;
    if (waits && !peer.link) peer.link.emplace(static_cast<int>(process));
    if (peer.link) peer.link->note(unanswered);
  }
}

}  // namespace lockstep::collectives
