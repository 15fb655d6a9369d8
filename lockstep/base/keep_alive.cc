// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/keep_alive.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace lockstep {
namespace {

constexpr std::chrono::seconds kIdle(30), kInterval(10);

void set(int socket, int level, int option, std::chrono::seconds::rep value) {
  const auto number = static_cast<int>(value);
  // Where it cannot be set, the connection lives as long as the system keeps it.
  static_cast<void>(setsockopt(socket, level, option, &number, sizeof number));
}

}  // namespace

void keep_alive(int socket) {
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, kIdle.count());
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, kInterval.count());
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, (kOutOfReach - kIdle) / kInterval);
}

void limit_unread(int socket, std::chrono::milliseconds time) {
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, time.count());
}

}  // namespace lockstep
