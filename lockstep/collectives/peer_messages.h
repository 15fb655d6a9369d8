#pragma once

// What Peers say to each other, and the sockets over which those of one host do; only for peers.cc.

#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "lockstep/collectives/file_descriptor.h"
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
  cpu_set_t cpus;
};

struct Message {
  Header header;
  std::string text;  ///< As docs/shared-memory.md tells it of each type.
};

/// Where a process can be reached, as it stands in the store.
struct Address {
  std::string name, token, host, place;
  std::string control = "-";         ///< For processes of other hosts; "-" where the job is on one.
  bool tls = false;                  ///< Whether it speaks TLS there.
  std::map<int, std::string> lanes;  ///< Of each of its devices, the Lane's mailbox; empty likewise.

  std::string encode() const;
  static Address decode(const std::string& text);
};

/// Where a process is to be reached by those of its host, and its token, as far as both follow from what the
/// job's processes know together.
std::string name_at(const std::string& meeting, int process);
std::string token_at(const std::string& meeting, int process);

std::string random_hex();
std::string to_hex(const std::string& bytes);
std::string from_hex(const std::string& text);

/// The kernel that runs now, and the network namespace: what must be the same for a connection.
std::string place();

std::pair<sockaddr_un, socklen_t> socket_address(const std::string& name);
FileDescriptor open_socket();

/// Whether who is at the other end is this process's user.
bool same_user(int socket);

}  // namespace lockstep::collectives
