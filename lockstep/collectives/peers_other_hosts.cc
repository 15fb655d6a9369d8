#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <cerrno>
#include <cstring>

#include "lockstep/base/fail.h"
#include "lockstep/collectives/interfaces.h"
#include "lockstep/collectives/lane.h"
#include "lockstep/collectives/peers_impl.h"

namespace lockstep::collectives {
namespace {

FileDescriptor tcp_socket(const SocketAddress& address) {
  FileDescriptor fd(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) fail("cannot open a TCP socket: {}", std::strerror(errno));
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
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
    fail("cannot listen for processes of other hosts at {}: {}", address.to_string(), std::strerror(errno));
  }
  own_.control = address.to_string();
  listens_to_hosts_alone_.emplace(other_hosts_.get());
}

void Peers::Impl::accept_from_other_hosts() {
  FileDescriptor fd = accept_at(other_hosts_);
  if (!fd) return;
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  connections_.push_back(
      tcp_connection(std::move(fd), {options_.job_secret + own_.token, options_.process_index, -1}));
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
  {
    std::lock_guard lock(mutex_);
    Peer& peer = peers_[process];
    if (std::exchange(peer.address, target)) return;  // Another thread has begun.
    peer.host = target.host;
    if (peer.state == PeerState::kConnected) return;  // It has called first.
  }
  std::string trouble;
  FileDescriptor fd = connect_by_tcp(*address, start, check, trouble);
  std::lock_guard lock(mutex_);
  Peer& peer = peers_[process];
  if (fd) {
    fresh_.push_back(
        tcp_connection(std::move(fd), {options_.job_secret + target.token, options_.process_index, process}));
    fresh_.back()->send(own_message(MessageType::kHello, own_.host));
    wake_listener();
  } else if (peer.state == PeerState::kUnknown) {
    peer.trouble = trouble;
    peer.state = PeerState::kUnreachable;
  }
}

FileDescriptor Peers::Impl::connect_by_tcp(const SocketAddress& address, steady_clock::time_point start,
                                           const std::function<void()>& check, std::string& trouble) const {
  FileDescriptor fd = tcp_socket(address);
  int error = connect(fd.get(), address.get(), address.size) == 0 ? 0 : errno;
  while (error == EINPROGRESS || error == EINTR) {
    pollfd polled{fd.get(), POLLOUT, 0};
    const int ready = poll(&polled, 1, static_cast<int>(kPoll.count()));
    if (ready > 0) {
      socklen_t size = sizeof error;
      if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
      break;
    }
    check();
    if (steady_clock::now() - start > options_.timeout) error = ETIMEDOUT;
  }
  if (error == 0) return fd;
  trouble = fmt::format("{}: {}", address.to_string(), std::strerror(error));
  return {};
}

}  // namespace lockstep::collectives
