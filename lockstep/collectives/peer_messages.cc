// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/peer_messages.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "lockstep/base/fail.h"
#include "lockstep/base/hex.h"
#include "lockstep/base/host_name.h"
#include "lockstep/base/limits.h"
#include "lockstep/collectives/world.h"
#include "lockstep/coordination/identity/proof.h"

namespace lockstep::collectives {
namespace {

/// Before the address for processes of other hosts; by Protection.
constexpr std::string_view kMarks[] = {"", "secret:", "tls:"};

std::string word_of(const std::string& meeting, std::string_view purpose, int process) {
  return to_hex(coordination::authentication_code(meeting, purpose, std::to_string(process))).substr(0, 32);
}

}  // namespace

std::optional<std::string> read_message(std::string_view bytes, Message& message) {
  constexpr std::size_t kHeader = sizeof message.header;
  if (bytes.size() < kHeader || bytes.size() > kHeader + kMaxText)
    return fmt::format("expected a message of {} to {} bytes, got {}", kHeader, kHeader + kMaxText,
                       bytes.size());
  std::memcpy(&message.header, bytes.data(), kHeader);
  message.text = bytes.substr(kHeader);
  if (message.header.type <= MessageType::kGiven) return std::nullopt;
  return fmt::format("expected a message of type 0 to {}, got type {}",
                     static_cast<std::uint32_t>(MessageType::kGiven),
                     static_cast<std::uint32_t>(message.header.type));
}

std::string Address::encode() const {
  std::string text = fmt::format("{} {} {} {} {}{}", name, token, to_hex(host), place,
                                 kMarks[static_cast<std::size_t>(protection)], control);
  for (const auto& [device, address] : lanes) text += fmt::format(" {} {}", device, to_hex(address));
  return text;
}

Address Address::decode(const std::string& text) {
  Address address;
  std::istringstream in(text);
  in >> address.name >> address.token >> address.host >> address.place >> address.control;
  address.host = from_hex(address.host);
  for (const Protection each : {Protection::kSecret, Protection::kCertificates}) {
    const std::string_view mark = kMarks[static_cast<std::size_t>(each)];
    if (!address.control.starts_with(mark)) continue;
    address.protection = each;
    address.control.erase(0, mark.size());
    break;
  }
  std::string lane;
  for (int device; in >> device >> lane;) address.lanes[device] = from_hex(lane);
  return address;
}

std::string name_at(const std::string& meeting, int process) {
  return "lockstep-" + word_of(meeting, "name", process);
}

std::string token_at(const std::string& meeting, int process) { return word_of(meeting, "token", process); }

/// The running kernel, and the network namespace: both must be equal for a connection.
std::string place() {
  std::string boot = "unknown";
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat status {};
  const bool known = stat("/proc/self/ns/net", &status) == 0;
  return fmt::format("{}:{}", boot, known ? status.st_ino : 0);
}

std::pair<sockaddr_un, socklen_t> socket_address(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // A leading zero byte: the name is not in a file system.
  std::memcpy(address.sun_path + 1, name.data(), std::min(name.size(), sizeof(address.sun_path) - 1));
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

FileDescriptor open_socket() {
  FileDescriptor fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) fail("cannot open a unix socket: {}", describe_error(errno));
  return fd;
}

bool same_user(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 && credentials.uid == getuid();
}

std::string host_identity() { return place() + ":" + host_name(); }

}  // namespace lockstep::collectives
