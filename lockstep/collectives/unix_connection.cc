// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/limits.h"
#include "lockstep/base/passed_descriptor.h"
#include "lockstep/collectives/connection.h"

namespace lockstep::collectives {
namespace {

class UnixConnection : public Connection {
 public:
  UnixConnection(FileDescriptor socket, int process) : Connection(std::move(socket), process, process < 0) {}

  void send(const Message& message, int fd) override {
    if (!has_kept() && try_to_send(message, fd)) return;
    Kept& kept = kept_.emplace_back(Kept{message, {}});
    if (fd < 0) return;
    kept.fd = FileDescriptor(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (kept.fd) return;
    const int error = errno;
    kept_.pop_back();
    fail("cannot hand memory to another process: {}", describe_error(error));
  }

  void send_kept() override {
    while (has_kept() && try_to_send(kept_.front().message, kept_.front().fd.get())) kept_.pop_front();
  }

  bool has_kept() const override { return !kept_.empty(); }

  bool is_unknown_here() const override { return process < 0; }

  Heard hear(Message& message, FileDescriptor& fd) override;

 private:
  struct Kept {
    Message message;
    FileDescriptor fd;
  };

  /// False if there is no room.
  bool try_to_send(const Message& message, int fd);

  std::deque<Kept> kept_;
};

bool UnixConnection::try_to_send(const Message& message, int fd) {
  iovec parts[2] = {{const_cast<Header*>(&message.header), sizeof message.header},
                    {const_cast<char*>(message.text.data()), std::min(message.text.size(), kMaxText)}};
  msghdr header{};
  header.msg_iov = parts;
  header.msg_iovlen = 2;
  PassedDescriptor passed;
  passed.send_with(header, fd);
  ssize_t sent;
  while ((sent = sendmsg(descriptor(), &header, MSG_NOSIGNAL | MSG_DONTWAIT)) < 0 && errno == EINTR) {
  }
  return sent >= 0 || (errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM && errno != ETOOMANYREFS);
}

Connection::Heard UnixConnection::hear(Message& message, FileDescriptor& fd) {
  // One byte more than a message may have: what is longer is seen as such.
  std::string bytes(sizeof message.header + kMaxText + 1, '\0');
  iovec part{bytes.data(), bytes.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  PassedDescriptor passed;
  passed.receive_with(header);
  ssize_t got;
  // If the other process ended with messages that it had not read, the kernel says so once (ECONNRESET), and
  // before it gives the messages that this process has not read: the reason for the end is among them.
  bool reset = false;
  while ((got = recvmsg(descriptor(), &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT)) < 0 &&
         (errno == EINTR || (errno == ECONNRESET && !std::exchange(reset, true)))) {
  }
  if (got < 0 && errno == EAGAIN) return Heard::kNothing;
  if (const int received = got >= 0 ? PassedDescriptor::received(header) : -1; received >= 0)
    fd = FileDescriptor(received);
  if (got <= 0) return Heard::kEnd;
  bytes.resize(static_cast<std::size_t>(got));
  if (const auto wrong = read_message(bytes, message)) {
    trouble_ = *wrong;
    return Heard::kEnd;
  }
  return (header.msg_flags & MSG_CTRUNC) != 0 && !fd ? Heard::kMessageWithoutItsDescriptor : Heard::kMessage;
}

}  // namespace

std::shared_ptr<Connection> unix_connection(FileDescriptor socket, int process) {
  return std::make_shared<UnixConnection>(std::move(socket), process);
}

}  // namespace lockstep::collectives
