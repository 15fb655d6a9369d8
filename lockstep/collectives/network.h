#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace lockstep::collectives {

/// UCX, which transports data between hosts. It is loaded when the first Network is opened, so that a job on
/// one host does not load it.
class Network {
 public:
  /// `interface` is the network interface to use; if it is empty, the user's UCX_NET_DEVICES, and then
  /// interface_to_others(coordinator). Throws Error if UCX is not installed or has no connection to another
  /// host.
  static std::shared_ptr<Network> open(const std::string& interface, const std::string& coordinator);

  virtual ~Network() = default;

  /// "UCX 1.13.1, transports tcp, devices eth0".
  virtual const std::string& description() const = 0;
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
  static std::unique_ptr<Mailbox> open(std::shared_ptr<Network> network);

  /// Sends queued data, within a fraction of a second, and closes all connections.
  virtual ~Mailbox() = default;

  /// What `connect` on another host needs; any bytes.
  virtual const std::string& address() const = 0;

  /// An endpoint for the mailbox with that address; the connection is made with the first messages. Throws
  /// Error for an invalid address.
  virtual int connect(const std::string& address) = 0;

  /// Why the endpoint is broken; null if it is not. All transfers of a broken endpoint fail.
  virtual const char* broken(int endpoint) const = 0;

  /// Breaks the connection: its transfers soon fail.
  virtual void disconnect(int endpoint) = 0;

  virtual Transfer send(int endpoint, std::uint64_t tag, const void* data, std::size_t bytes) = 0;
  virtual Transfer receive(std::uint64_t tag, void* data, std::size_t bytes) = 0;

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

  /// Ends the current or next sleep. May be called from any thread.
  virtual void wake() = 0;
};

}  // namespace lockstep::collectives
