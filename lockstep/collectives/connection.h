#pragma once

// The connections between Peers; only for them.

#include <chrono>
#include <memory>
#include <string>

#include "lockstep/collectives/file_descriptor.h"
#include "lockstep/collectives/forked_child.h"
#include "lockstep/collectives/peer_messages.h"
#include "lockstep/coordination/tls.h"

namespace lockstep::collectives {

/// One end of a connection over which messages come whole and in order. To be used by one thread at a time.
/// Nothing blocks.
class Connection {
 public:
  virtual ~Connection() = default;

  /// Readable when there is something to hear.
  int descriptor() const { return socket_.get(); }

  /// Sends the message, with a descriptor or none, or keeps it (and a duplicate of the descriptor) until
  /// there is room for it. To one that is gone nothing is sent: who hears will notice. Throws Error where the
  /// descriptor cannot be handed over.
  virtual void send(const Message& message, int fd = -1) = 0;

  /// Sends what was kept, as far as there is room.
  virtual void send_kept() = 0;
  virtual bool has_kept() const = 0;

  enum class Heard {
    kMessage,
    kMessageWithoutItsDescriptor,  ///< this process could not have another one
    kNothing,                      ///< for now
    kEnd
  };

  /// The next message.
  virtual Heard hear(Message& message, FileDescriptor& fd) = 0;

  /// Whether the other side is known to be of the job. Within a host the kernel says so.
  virtual bool is_proved() const { return true; }

  /// Why the connection ended before that, where the other side is there; empty otherwise.
  virtual std::string trouble() const { return ""; }

  int process;          ///< Who is at the other end; -1 while that is not known.
  const bool accepted;  ///< And not made by this process.
  const std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();

 protected:
  Connection(FileDescriptor socket, int process, bool accepted)
      : process(process), accepted(accepted), socket_(std::move(socket)), alone_(socket_.get()) {}

 private:
  const FileDescriptor socket_;
  const NotForChildren alone_;
};

/// Over a unix socket, within a host. `process` is -1 where this process has accepted it.
std::shared_ptr<Connection> unix_connection(FileDescriptor socket, int process);

/// What two processes on different hosts know of each other before they speak.
struct Acquaintance {
  std::string key;  ///< Known to the job's processes only, and another one for each that accepts.
  int self = 0;
  int process = -1;                                   ///< Who is called; -1 where this process is.
  std::shared_ptr<const coordination::Tls> tls = {};  ///< Null: what is said is in plain text.
};

/// Over a TCP socket, between hosts. Before anything else both sides show their certificates, where there is
/// TLS, and prove by an HMAC over a number that the other has just drawn that they know the key; with TLS the
/// HMAC covers what is of this connection alone, so that nobody can sit between two. The connection ends
/// where one does not, or says that a message is longer than any is.
std::shared_ptr<Connection> tcp_connection(FileDescriptor socket, Acquaintance acquaintance);

}  // namespace lockstep::collectives
