// SPDX-License-Identifier: Apache-2.0
#pragma once

// The connections between Peers; only for these.

#include <chrono>
#include <memory>
#include <string>

#include "lockstep/base/file_descriptor.h"
#include "lockstep/collectives/forked_child.h"
#include "lockstep/collectives/peer_messages.h"
#include "lockstep/coordination/tls/tls.h"

namespace lockstep::collectives {

/// One end of a connection that transports whole messages in order. Use it from one thread at a time. No
/// function blocks.
class Connection {
 public:
  virtual ~Connection() = default;

  /// Readable when a message may have arrived.
  int descriptor() const { return socket_.get(); }

  /// Sends the message, with a descriptor or without (-1), or queues it (and a duplicate of the descriptor)
  /// until there is room. If the other side is gone, nothing is sent; reading from the connection reports
  /// that. Throws Error if the descriptor cannot be sent.
  virtual void send(const Message& message, int fd = -1) = 0;

  /// Sends queued messages, as far as there is room.
  virtual void send_kept() = 0;
  virtual bool has_kept() const = 0;

  enum class Heard {
    kMessage,
    kMessageWithoutItsDescriptor,  ///< the message came with a descriptor, but this process cannot open
                                   ///< another one
    kNothing,                      ///< no message for now
    kEnd
  };

  /// Reads the next message.
  virtual Heard hear(Message& message, FileDescriptor& fd) = 0;

  /// Whether the other side has proved that it belongs to the job. Within a host the kernel guarantees this.
  virtual bool is_proved() const { return true; }

  /// Whether the other side is on this host, and has not said yet which process it is.
  virtual bool is_unknown_here() const { return false; }

  /// Why the connection ended although the other side exists: the two could not prove who they are, or it
  /// sent what is no message; empty otherwise.
  const std::string& trouble() const { return trouble_; }

  int process;          ///< the process at the other end; -1 while it is unknown
  const bool accepted;  ///< false: this process has opened it
  const std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();

 protected:
  Connection(FileDescriptor socket, int process, bool accepted)
      : process(process), accepted(accepted), socket_(std::move(socket)), alone_(socket_.get()) {}

  std::string trouble_;

 private:
  const FileDescriptor socket_;
  const NotForChildren alone_;
};

/// A connection over a unix socket, within a host. `process` is -1 if this process has accepted it.
std::shared_ptr<Connection> unix_connection(FileDescriptor socket, int process);

/// Facts that two processes on different hosts know about each other before they communicate.
struct Acquaintance {
  std::string key;  ///< only known to the job's processes, and different for each accepting process
  int self = 0;
  int process = -1;  ///< the process that is called; -1 if this process is called
  std::shared_ptr<const coordination::Tls> tls = {};  ///< null: messages are in plain text
};

/// A connection over a TCP socket, between hosts. First both sides present their certificates, if TLS is
/// used, and prove that they know the key, by an HMAC over a random number from the other side. With TLS the
/// HMAC also covers data that is unique to this connection, so that no third party can be between them. The
/// connection ends if one side cannot prove it, or announces a message that is too long.
std::shared_ptr<Connection> tcp_connection(FileDescriptor socket, Acquaintance acquaintance);

}  // namespace lockstep::collectives
