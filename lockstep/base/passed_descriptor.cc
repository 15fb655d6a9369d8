// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/passed_descriptor.h"

#include <cstring>

namespace lockstep {

void PassedDescriptor::send_with(msghdr& message, int descriptor) {
  if (descriptor < 0) return;
  receive_with(message);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof(descriptor));
}

void PassedDescriptor::receive_with(msghdr& message) {
  message.msg_control = control_;
  message.msg_controllen =
      CMSG_LEN(sizeof(int));  // not its space, in which there may be room for a second one
}

int PassedDescriptor::received(const msghdr& message) {
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) return -1;
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof(descriptor));
  return descriptor;
}

}  // namespace lockstep
