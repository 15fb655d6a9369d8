// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

namespace lockstep {

/// The part of a Unix socket's message that passes one descriptor (SCM_RIGHTS). It must live until sendmsg or
/// recvmsg returns.
class PassedDescriptor {
 public:
  /// Before sendmsg: a duplicate of the descriptor goes with the message; nothing if it is negative.
  void send_with(msghdr& message, int descriptor);

  /// Before recvmsg, with MSG_CMSG_CLOEXEC: makes room for a descriptor.
  void receive_with(msghdr& message);

  /// After recvmsg: the descriptor that came, which the caller owns; -1 if none came.
  static int received(const msghdr& message);

 private:
  alignas(cmsghdr) char control_[CMSG_SPACE(sizeof(int))] = {};
};

}  // namespace lockstep
