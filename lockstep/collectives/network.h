#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace lockstep::collectives {

/// UCX, which carries bytes between hosts. It is loaded when the first Network is opened, so that a job on
/// one host has nothing of it.
class Network {
 public:
  /// `interface` is the network interface to use; where it is empty, the user's UCX_NET_DEVICES decides, then
  /// interface_to_others(coordinator). Throws Error where UCX is not installed or has no way to another host.
  static std::shared_ptr<Network> open(const std::string& interface, const std::string& coordinator);

  virtual ~Network() = default;

  /// "UCX 1.13.1, transports tcp, devices eth0".
  virtual const std::string& description() const = 0;
};

/// A message that is sent or received. Its memory must stay until Mailbox::finished says so.
struct Transfer {
  void* request = nullptr;  ///< Null: nothing is in progress.
  bool receives = false;
  std::size_t bytes = 0;        ///< Received, once it is finished.
  const char* error = nullptr;  ///< Why it failed, once it is finished; null where it did not.
};

/// One end of connections to other processes: messages go out to endpoints, and come in from everywhere,
/// matched by tag, in order for each sender and tag. Nothing moves but within a call. To be used by one
/// thread at a time, but for `wake`.
class Mailbox {
 public:
  static std::unique_ptr<Mailbox> open(std::shared_ptr<Network> network);

  /// Sends what is still to be sent, within a fraction of a second, and closes all connections.
  virtual ~Mailbox() = default;

  /// What `connect` on another host needs; any bytes.
  virtual const std::string& address() const = 0;

  /// An endpoint that leads to the mailbox of that address; the connection is made in the course of the first
  /// messages. Throws Error where the address is none.
  virtual int connect(const std::string& address) = 0;

  /// Why the endpoint is broken; null where it is not. All transfers to a broken endpoint fail.
  virtual const char* broken(int endpoint) const = 0;

  /// Breaks it off: transfers to it fail, soon.
  virtual void disconnect(int endpoint) = 0;

  virtual Transfer send(int endpoint, std::uint64_t tag, const void* data, std::size_t bytes) = 0;
  virtual Transfer receive(std::uint64_t tag, void* data, std::size_t bytes) = 0;

  /// A transfer that is finished when all that was sent to the endpoint has left this process.
  virtual Transfer flush(int endpoint) = 0;

  /// Gives up a message that has not come. It may still have to be waited for.
  virtual void cancel(Transfer& transfer) = 0;

  /// Whether the transfer is over, well or not. Does not make anything move.
  virtual bool finished(Transfer& transfer) = 0;

  /// Moves what can be moved; whether something did.
  virtual bool progress() = 0;

  /// Sleeps until something can be moved, `wake` is called, or the time is over; may return early.
  virtual void sleep(std::chrono::milliseconds limit) = 0;

  /// Readable when something can be moved, if `arm` gave true after the last `progress`. It gives false where
  /// something can be moved already.
  virtual int descriptor() const = 0;
  virtual bool arm() = 0;

  /// Ends a sleep, present or next. May be called from any thread.
  virtual void wake() = 0;
};

}  // namespace lockstep::collectives
