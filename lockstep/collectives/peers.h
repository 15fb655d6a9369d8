// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/file_descriptor.h"
#include "lockstep/collectives/crowding.h"
#include "lockstep/collectives/lane.h"
#include "lockstep/collectives/stall.h"
#include "lockstep/collectives/world.h"

namespace lockstep::collectives {

enum class PeerState { kUnknown, kConnected, kLeft, kDied, kUnreachable };

/// Callbacks of the thread of Peers. None may block.
struct PeerEvents {
  /// A peer has left or died; kUnknown if it is gone and may have left in order.
  std::function<void(int process, PeerState how)> on_loss;
  std::function<void(const std::string& message)>
      on_divergence;  ///< a peer has seen that the processes diverge
  std::function<void(const std::string& message)>
      on_failure;                            ///< a peer has ended because another process has failed
  std::function<std::vector<Wait>()> waits;  ///< a peer asks for this process's waits
  /// A peer's message for Handouts, possibly with a descriptor.
  std::function<void(int process, const std::string& text)> on_want;
  std::function<void(int process, const std::string& text, FileDescriptor fd)> on_given;
  /// A thread of Peers has ended with this exception: messages of peers are no longer read, or peers are no
  /// longer connected.
  std::function<void(std::exception_ptr)> on_error;
};

/// The other processes of the job. Each process of this host has a connection over an abstract unix socket,
/// made in the background. These sockets belong to a network namespace, so a connection proves that both can
/// share memory. Processes of other hosts are connected over TCP when one of the two first waits for the
/// other. One thread reads all connections. All methods may be called from any thread.
class Peers {
 public:
  /// `lanes` is only used in the constructor.
  Peers(const WorldOptions& options, const Lanes& lanes, PeerEvents events);
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  /// Blocks until the process is connected. `check` is called from time to time, and may throw. Throws
  /// PeerFailure, TimeoutError, and Error if a process that should be on this host is not.
  void wait_connected(int process, const std::function<void()>& check);

  /// The mailbox of a device of a connected process on another host.
  std::string lane(int process, int device) const;

  /// A token of this process, or of a connected one on another host, that only the processes of the job know.
  std::string token(int process) const;

  /// Sends a descriptor to a connected process of this host, under a key.
  void send(int process, const std::string& key, int fd);

  /// Blocks until the process has sent a descriptor under the key, without a time limit. Throws PeerFailure,
  /// and Error if this process cannot open another descriptor.
  FileDescriptor receive(int process, const std::string& key, const std::function<void()>& check);

  /// Sends messages of Handouts to a connected process; `given` with a descriptor or -1. Throw Error if the
  /// descriptor cannot be sent.
  void want(int process, const std::string& text);
  void given(int process, const std::string& text, int fd);

  PeerState state(int process) const;

  /// "process 1 of 4 (pid 4711)"; for another host "process 1 of 4 (host b, pid 4711)".
  std::string describe(int process) const;

  /// Throws PeerFailure if the process has died or left; `doing` describes the wait: "process 0 waited for it
  /// in …".
  void throw_if_lost(int process, const std::string& doing) const;

  /// That of this host, with its connected processes.
  const Crowding& crowding() const;

  /// ask_for_waits asks those connected peers for their waits that have answered the last question.
  /// heard_waits returns the answers since then.
  void ask_for_waits();
  std::vector<Wait> heard_waits(std::chrono::steady_clock::time_point since) const;

  /// Tells all connected peers that the processes diverge.
  void tell_divergence(const std::string& message);

  /// Tells all connected peers that this process ends because another one has failed; only once.
  void tell_failure(const std::string& message);

  /// Tells all peers that this process leaves in order. May take half a second if some are on other hosts, or
  /// have no room for the message.
  void leave();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::collectives
