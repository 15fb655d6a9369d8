#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/collectives/crowding.h"
#include "lockstep/collectives/file_descriptor.h"
#include "lockstep/collectives/lane.h"
#include "lockstep/collectives/stall.h"
#include "lockstep/collectives/world.h"

namespace lockstep::collectives {

enum class PeerState { kUnknown, kConnected, kLeft, kDied, kUnreachable };

/// What the thread of Peers calls. None may block.
struct PeerEvents {
  /// A peer has left or died; kUnknown where it is gone, but may have left in order before.
  std::function<void(int process, PeerState how)> on_loss;
  std::function<void(const std::string& message)>
      on_divergence;  ///< A peer has seen that the processes diverge.
  std::function<void(const std::string& message)>
      on_failure;                            ///< A peer has ended because another process has failed.
  std::function<std::vector<Wait>()> waits;  ///< A peer asks how this process waits.
  /// A peer wants what Handouts has, or gives it, perhaps with a descriptor.
  std::function<void(int process, const std::string& text)> on_want;
  std::function<void(int process, const std::string& text, FileDescriptor fd)> on_given;
  /// A thread of Peers has ended by this exception: peers are not heard any more, or not connected.
  std::function<void(std::exception_ptr)> on_error;
};

/// The other processes of the job. Those of this host have one connection each over an abstract unix socket,
/// made in the background. Sockets of this kind belong to a network namespace, so a connection is the proof
/// that both can share memory. Those of other hosts are connected over TCP when they are first waited for, by
/// either. One thread listens to them all. All methods may be called from any thread.
class Peers {
 public:
  /// `lanes` is not used after the constructor.
  Peers(const WorldOptions& options, const Lanes& lanes, PeerEvents events);
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  /// Blocks until the process is connected. `check` is called now and then, and may throw. Throws
  /// PeerFailure, TimeoutError, and Error where a process that was said to be on this host is not.
  void wait_connected(int process, const std::function<void()>& check);

  /// The mailbox of a device of a connected process on another host.
  std::string lane(int process, int device) const;

  /// What only the processes of the job know of this process, or of a connected one on another host.
  std::string token(int process) const;

  /// Hands a descriptor to a connected process of this host, under a key.
  void send(int process, const std::string& key, int fd);

  /// Blocks until the process has sent a descriptor under the key, however long it takes. Throws PeerFailure,
  /// and Error where this process cannot have another descriptor.
  FileDescriptor receive(int process, const std::string& key, const std::function<void()>& check);

  /// Sends what Handouts says to a connected process; of `given`, with a descriptor or -1. Throws Error where
  /// the descriptor cannot be handed over.
  void want(int process, const std::string& text);
  void given(int process, const std::string& text, int fd);

  PeerState state(int process) const;

  /// "process 1 of 4 (pid 4711)"; of another host "process 1 of 4 (host b, pid 4711)".
  std::string describe(int process) const;

  /// Throws PeerFailure if the process has died or left; `doing` says what was waiting: "process 0 waited for
  /// it in …".
  void throw_if_lost(int process, const std::string& doing) const;

  /// Of this host, as far as its processes are connected.
  const Crowding& crowding() const;

  /// Asks all connected peers how they wait that have answered the last question, and gives what has been
  /// answered since.
  void ask_for_waits();
  std::vector<Wait> heard_waits(std::chrono::steady_clock::time_point since) const;

  /// Tells all connected peers that the processes diverge.
  void tell_divergence(const std::string& message);

  /// Tells all connected peers that this process ends because another one has failed; once.
  void tell_failure(const std::string& message);

  /// Tells all peers that this process leaves in order. Where some are on other hosts, or have no room for
  /// it, it may take half a second.
  void leave();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::collectives
