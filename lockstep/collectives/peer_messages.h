// SPDX-License-Identifier: Apache-2.0
#pragma once

// The messages between Peers, and the sockets of those on one host; only for peers.cc.

#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "lockstep/base/file_descriptor.h"
#include "lockstep/collectives/limits.h"

namespace lockstep::collectives {

enum class MessageType : std::uint32_t {
  kHello,
  kSegment,
  kAsk,
  kWaits,
  kDivergence,
  kBye,
  kFailure,
  kWant,
  kGiven
};

struct Header {
  MessageType type;
  std::int32_t from;
  std::int32_t pid;
  std::int32_t unused = 0;
  cpu_set_t cpus = {};
};
/// Padding would carry bytes of the sender's stack to the peer.
static_assert(std::has_unique_object_representations_v<Header>);

struct Message {
  Header header;
  std::string text;  ///< docs/shared-memory.md describes it for each type
};

/// Reads the bytes of a message. Returns what is wrong with them, if they are none of this version.
std::optional<std::string> read_message(std::string_view bytes, Message& message);

/// How control connections between hosts are protected: both sides prove the secret, in plain text; TLS with
/// a key made of it; TLS with certificates.
enum class Protection : std::uint8_t { kNone, kSecret, kCertificates };

/// The address of a process, as stored in the store.
struct Address {
  std::string name, token, host, place;
  std::string control = "-";                  ///< for processes on other hosts; "-" if the job is on one host
  Protection protection = Protection::kNone;  ///< there
  std::map<int, std::string> lanes;  ///< the mailbox of each of its devices; empty if the job is on one host

  std::string encode() const;
  static Address decode(const std::string& text);
};

/// The address of a process for others on its host, and its token, as far as both are derived from data that
/// all processes of the job have.
std::string name_at(const std::string& meeting, int process);
std::string token_at(const std::string& meeting, int process);

/// The running kernel, and the network namespace: both must be equal for a connection.
std::string place();

std::pair<sockaddr_un, socklen_t> socket_address(const std::string& name);
FileDescriptor open_socket();

/// Whether the process at the other end belongs to the same user.
bool same_user(int socket);

}  // namespace lockstep::collectives
