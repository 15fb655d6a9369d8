// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace lockstep {

/// How long a host may be out of reach before its connections end, also those over which nothing is sent.
inline constexpr std::chrono::seconds kOutOfReach(900);

/// Sends something over an idle TCP connection every half minute, so that routers do not forget it, and ends
/// it when the other host has not answered for kOutOfReach. A process that does not read keeps its
/// connection, because its host answers: it may be stopped, or busy. For sockets that are connected, or will
/// be; no effect on others.
void keep_alive(int socket);

/// Ends the connection also if the other side does not take what is sent to it for this time. For sides that
/// read at any time.
void limit_unread(int socket, std::chrono::milliseconds time);

}  // namespace lockstep
