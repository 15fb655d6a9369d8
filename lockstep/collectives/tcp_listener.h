// SPDX-License-Identifier: Apache-2.0
#pragma once

// How strangers come in; only for tcp_network.cc.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "lockstep/base/file_descriptor.h"
#include "lockstep/collectives/forked_child.h"
#include "lockstep/collectives/interfaces.h"
#include "lockstep/collectives/tcp_link.h"

namespace lockstep::collectives {

/// A TCP socket that does not block.
FileDescriptor tcp_socket(const SocketAddress& address);

/// Accepts connections. Until its other side has proved that it belongs to the job, a connection is a
/// stranger: their number and time are limited (lockstep/collectives/limits.h), and while there are too many
/// of them the listener rests.
class TcpListener {
 public:
  using Clock = std::chrono::steady_clock;
  using Links = std::span<const std::unique_ptr<Link>>;

  /// Listens at this address, at a port that the system chooses. `events`, an epoll descriptor, reports
  /// connections as events of `this`.
  TcpListener(const SocketAddress& address, int events);
  TcpListener(const TcpListener&) = delete;
  TcpListener& operator=(const TcpListener&) = delete;

  /// The address with the port.
  const SocketAddress& address() const { return address_; }

  /// A connection that waits, if another stranger may come beside these links; the oldest may have to go for
  /// it.
  std::optional<FileDescriptor> accept(Links links);

  /// When something is due: the end of a rest, or of a stranger's time.
  std::optional<Clock::time_point> next_due(Links links) const;
  void look_at_time(Links links, Clock::time_point now);

 private:
  bool have_room(Links links);
  /// Accepts nobody for this time.
  void rest(std::chrono::milliseconds time);
  void report(std::uint32_t events);

  const int events_;
  const FileDescriptor socket_;
  const NotForChildren alone_;
  SocketAddress address_;
  std::optional<Clock::time_point> rests_until_;
};

}  // namespace lockstep::collectives
