// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/base/options.h"

namespace lockstep::coordination {
class Tls;
}

namespace lockstep::collectives {

/// How to reach other hosts.
struct NetworkOptions {
  /// The network interface to use; if it is empty, for UCX the user's UCX_NET_DEVICES, and then
  /// interface_to_others(coordinator).
  std::string interface = {};
  std::string coordinator = {};  ///< "host:port", may be empty

  /// "tcp": sockets of Lockstep's own; "ucx": UCX. Empty: UCX if this host has an active RDMA device or
  /// UCX_TLS is set, otherwise tcp. All processes of a job must use the same.
  std::string network = {};

  /// tcp: the number of connections to each mailbox, 1 to 16, among which a large message is divided.
  int connections = options::kDataConnections.otherwise;

  /// tcp: messages for which no memory has been given yet hold at most so much in a mailbox, and then wait in
  /// the sender; at least 1.
  int unexpected_messages_mib = options::kUnexpectedMessagesMib.otherwise;

  /// tcp: both ends of a connection prove that they know it; may be empty.
  std::string secret = {};

  /// tcp: connections use it, at both ends; null: plain text. UCX has none: with it, the network is tcp.
  std::shared_ptr<const coordination::Tls> tls = {};
};

/// How long a mailbox that closes waits until its last messages are on their way.
inline constexpr std::chrono::milliseconds kCloseLimit(300);

class Mailbox;

/// Transports data between hosts.
class Network : public std::enable_shared_from_this<Network> {
 public:
  /// Throws Error for options that are not as above, if UCX is wanted and not installed, or with TLS, or if
  /// no interface leads to another host. UCX is loaded by the first Network that uses it.
  static std::shared_ptr<Network> open(const NetworkOptions& options);

  virtual ~Network() = default;

  /// "UCX 1.13.1, transports tcp, devices eth0".
  virtual const std::string& description() const = 0;

  /// A new mailbox, which keeps the network. Throws Error if the system has no room for another one.
  virtual std::unique_ptr<Mailbox> open_mailbox() = 0;
};

/// A message that is sent or received. Its memory must stay valid until Mailbox::finished returns true.
struct Transfer {
  void* request = nullptr;  ///< null: nothing is in progress
  bool receives = false;
  std::size_t bytes = 0;        ///< received, once it is finished
  const char* error = nullptr;  ///< why it failed, once it is finished; null if it succeeded
};

/// One end of connections to other processes. Messages are sent to endpoints, and received from all of them,
/// matched by tag, in order for each sender and tag. They only make progress within calls. Use it from one
/// thread at a time, except for `wake`.
class Mailbox {
 public:
  /// Sends queued data, within a fraction of a second, and closes all connections.
  virtual ~Mailbox() = default;

  /// The address that `connect` on another host needs; any bytes.
  virtual const std::string& address() const = 0;

  /// An endpoint for the mailbox with that address; the connection is made with the first messages. Throws
  /// Error for an invalid address.
  virtual int connect(const std::string& address) = 0;

  /// Why the endpoint is broken; null if it is not. All transfers of a broken endpoint fail.
  virtual const char* broken(int endpoint) const = 0;

  /// Whether the data itself showed why the endpoint is broken, so that the other side knows no better
  /// reason.
  virtual bool broken_by_data(int endpoint) const = 0;

  /// Breaks the connection: its transfers soon fail. (With UCX, a message that is arriving may never end.)
  virtual void disconnect(int endpoint) = 0;

  virtual Transfer send(int endpoint, std::uint64_t tag, const void* data, std::size_t bytes) = 0;

  /// `endpoint`: from where the message will come. A message that is behind others for which there is no room
  /// is read all the same while it is awaited. -1: not known, only for the first message of another mailbox.
  virtual Transfer receive(int endpoint, std::uint64_t tag, void* data, std::size_t bytes) = 0;

  /// A transfer that finishes when everything sent to the endpoint has left this process.
  virtual Transfer flush(int endpoint) = 0;

  /// Cancels a message that has not arrived. It may still be necessary to wait for it.
  virtual void cancel(Transfer& transfer) = 0;

  /// Whether the transfer has ended, successfully or not. Makes no progress.
  virtual bool finished(Transfer& transfer) = 0;

  /// Makes progress where possible; returns whether there was any.
  virtual bool progress() = 0;

  /// Sleeps until progress is possible, `wake` is called, or the time is over; may return early.
  virtual void sleep(std::chrono::milliseconds limit) = 0;

  /// Readable when progress is possible, if `arm` returned true after the last `progress`. It returns false
  /// if progress is already possible.
  virtual int descriptor() const = 0;
  virtual bool arm() = 0;

  /// Since when the other host has confirmed none of the bytes that were sent to the endpoint and that it has
  /// not confirmed, as far as earlier calls have seen; the epoch: there are no such bytes; nullopt: this
  /// network does not tell. Asks the kernel: call it now and then, in a long wait.
  virtual std::optional<std::chrono::steady_clock::time_point> unanswered(int endpoint) = 0;

  /// Ends the current or next sleep. May be called from any thread.
  virtual void wake() = 0;
};

}  // namespace lockstep::collectives
