#pragma once

// A connection between Peers of one host; only for them.

#include <deque>

#include "lockstep/collectives/file_descriptor.h"
#include "lockstep/collectives/forked_child.h"
#include "lockstep/collectives/peer_messages.h"

namespace lockstep::collectives {

/// One end of a unix socket over which messages come whole and in order, each with a descriptor or none. One
/// thread hears; the rest is to be called under one mutex. Nothing blocks.
class Connection {
 public:
  /// `process` is -1 where the other has not said who it is.
  Connection(FileDescriptor socket, int process)
      : process(process), socket_(std::move(socket)), alone_(socket_.get()) {}

  int descriptor() const { return socket_.get(); }

  /// Sends the message, or keeps it, and a duplicate of the descriptor, until there is room for it. To one
  /// that is gone nothing is sent: who hears will notice. Throws Error where the descriptor cannot be
  /// duplicated.
  void send(const Message& message, int fd = -1);

  /// Sends what was kept, as far as there is room.
  void send_kept();
  bool has_kept() const { return !kept_.empty(); }

  enum class Heard {
    kMessage,
    kMessageWithoutItsDescriptor,  ///< this process could not have another one
    kEnd
  };

  /// The next message, which must have come.
  Heard hear(Message& message, FileDescriptor& fd);

  int process;

 private:
  struct Kept {
    Message message;
    FileDescriptor fd;
  };

  /// False where there is no room.
  bool try_to_send(const Message& message, int fd);

  FileDescriptor socket_;
  NotForChildren alone_;
  std::deque<Kept> kept_;
};

}  // namespace lockstep::collectives
