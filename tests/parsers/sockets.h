// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "lockstep/base/file_descriptor.h"

namespace lockstep::parsers {

/// Two ends of a connection of this process.
inline std::pair<FileDescriptor, FileDescriptor> socket_pair(int type = SOCK_STREAM) {
  int ends[2];
  if (socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    throw std::logic_error("socketpair");
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

inline void send_all(int descriptor, const std::string& bytes) {
  if (send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size()))
    throw std::logic_error("send");
}

template <class T>
std::string as_bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace lockstep::parsers
