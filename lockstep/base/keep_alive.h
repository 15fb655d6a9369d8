// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace lockstep {

/// How long a host may not answer before its connections end, idle ones as well.
inline constexpr std::chrono::seconds kOutOfReach(900);

/// Lets the kernel probe a TCP connection that has been idle for half a minute, so that routers do not forget
/// it, and end it when the other host has not answered for kOutOfReach. A process that is stopped or busy
/// keeps its connections, because its host's kernel answers. Call it before or after the socket is connected;
/// it has no effect on sockets that are not TCP.
void keep_alive(int socket);

/// Also ends the connection if the other side does not accept what is sent to it for this time. Only for
/// peers that always read.
void limit_unread(int socket, std::chrono::milliseconds time);

}  // namespace lockstep
