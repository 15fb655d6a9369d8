// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <string>

namespace lockstep::coordination {

/// One end of a TLS connection over a socket that does not block, for large data: they are deciphered to
/// where they are wanted, and records go to the socket from where they are made. Nothing blocks and nothing
/// throws. Use it from one thread at a time. It sends no close_notify: what is sent must say where it ends.
class TlsStream {
 public:
  virtual ~TlsStream() = default;

  /// Goes on with the handshake, and then reads up to `most` bytes, at most those of one record. Returns
  /// their number; 0 at the end; -1 with errno: EAGAIN if there is nothing now, EPROTO if the connection is
  /// over for the reason in trouble(), or what the socket says.
  virtual ssize_t read(void* into, std::size_t most) = 0;

  /// Writes what there is room for, after what it has kept. Returns the number of bytes that have left this
  /// process; -1 with errno: EAGAIN if there is no room, or the handshake is not done. Bytes that it has
  /// taken and not counted yet must be the first of the next call, unless the connection is given up.
  virtual ssize_t write(std::span<const iovec> pieces) = 0;

  /// Whether it has bytes for which the socket had no room; `send_kept` sends them, as far as there is room
  /// now, and returns whether none are left. Those of the handshake are among them.
  virtual bool has_kept() const = 0;
  virtual bool send_kept() = 0;

  /// Whether `read` has more to give, or to say, although the socket is not readable.
  virtual bool may_have_more() const = 0;

  /// Whether the handshake is done on this side.
  virtual bool is_open() const = 0;

  /// Whether the other side has sent anything.
  virtual bool has_heard() const = 0;

  /// As TlsSession's.
  virtual const std::string& trouble() const = 0;
  virtual std::string binding() const = 0;
};

}  // namespace lockstep::coordination
