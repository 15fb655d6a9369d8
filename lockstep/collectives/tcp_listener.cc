// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/tcp_listener.h"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "lockstep/base/fail.h"
#include "lockstep/base/limits.h"
#include "lockstep/base/log.h"
#include "lockstep/collectives/limits.h"

namespace lockstep::collectives {
namespace {

bool is_stranger(const Link& link) { return link.accepted && !link.is_open() && !link.has_ended(); }

}  // namespace

FileDescriptor tcp_socket(const SocketAddress& address) {
  FileDescriptor fd(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) fail("cannot open a TCP socket for another host: {}", describe_error(errno));
  return fd;
}

TcpListener::TcpListener(const SocketAddress& address, int events)
    : events_(events), socket_(tcp_socket(address)), alone_(socket_.get()), address_(address) {
  socklen_t size = address_.size;
  if (bind(socket_.get(), address_.get(), size) != 0 || listen(socket_.get(), SOMAXCONN) != 0 ||
      getsockname(socket_.get(), address_.get(), &size) != 0)
    fail("cannot listen for data of other hosts at {}: {}", address_.to_string(), describe_error(errno));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = this;
  if (epoll_ctl(events_, EPOLL_CTL_ADD, socket_.get(), &event) != 0)
    fail("cannot wait for other hosts: {}", describe_error(errno));
}

std::optional<FileDescriptor> TcpListener::accept(Links links) {
  if (!have_room(links)) return std::nullopt;
  FileDescriptor socket(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket) return socket;
  if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
    logging::debug("collectives: cannot accept a connection: {}", describe_error(errno));
    rest(kLeastTimeToProve);
  }
  return std::nullopt;
}

bool TcpListener::have_room(Links links) {
  std::size_t count = 0;
  Link* oldest = nullptr;
  for (const auto& link : links) {
    if (!is_stranger(*link)) continue;
    if (++count == 1 || link->begun < oldest->begun) oldest = link.get();
  }
  if (count < kMostStrangers) return true;
  if (Clock::now() - oldest->begun < kLeastTimeToProve) {
    rest(kLeastTimeToProve);
    return false;
  }
  oldest->end("it was closed to make room: newer connections came, and it had sent no proof");
  return true;
}

void TcpListener::rest(std::chrono::milliseconds time) {
  if (rests_until_) return;
  rests_until_ = Clock::now() + time;
  report(0);
}

void TcpListener::report(std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = this;
  epoll_ctl(events_, EPOLL_CTL_MOD, socket_.get(), &event);
}

std::optional<TcpListener::Clock::time_point> TcpListener::next_due(Links links) const {
  std::optional<Clock::time_point> next = rests_until_;
  for (const auto& link : links) {
    if (!is_stranger(*link)) continue;
    const Clock::time_point end = link->begun + kMostTimeToProve;
    next = next ? std::min(*next, end) : end;
  }
  return next;
}

void TcpListener::look_at_time(Links links, Clock::time_point now) {
  if (rests_until_ && *rests_until_ <= now) {
    rests_until_.reset();
    report(EPOLLIN);
  }
  for (const auto& link : links)
    if (is_stranger(*link) && now - link->begun >= kMostTimeToProve)
      link->end("it sent no proof in time that it belongs to this job");
}

}  // namespace lockstep::collectives
