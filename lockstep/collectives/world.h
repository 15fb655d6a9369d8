#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/coordination/identity.h"
#include "lockstep/coordination/key_value_store.h"

namespace lockstep::collectives {

class Arena;

class Communicator;
class Handouts;

/// The host of this process, the same text for all processes that can share memory: the kernel that runs, the
/// network namespace, and the host's name.
std::string host_identity();

struct WorldOptions {
  int process_index = 0;
  int process_count = 1;

  /// The process that owns each global device; global device ids are 0, 1, 2, …
  std::vector<int> device_process;

  /// The host of each process, as `host_identity()` gives it there: processes of one host share memory, those
  /// of different ones talk through UCX. Empty: all are on this host.
  std::vector<std::string> process_host;

  /// The network interface to reach other hosts by; where it is empty, interface_to_others of
  /// `coordinator_address` ("host:port", may be empty).
  std::string interface;
  std::string coordinator_address;

  /// Where the processes find each other; used until the World is destroyed. May be null in a job of one
  /// process.
  coordination::KeyValueStore* store = nullptr;
  std::string job_id;  ///< Keeps apart the jobs that share a store.

  /// What only the processes of this start of the job know, the same for all: from it those of one host know
  /// each other's addresses. Empty: they find them in the store.
  std::string meeting;
  std::string
      job_secret;  ///< What processes of different hosts prove to each other that they know; may be empty.
  coordination::TlsFiles tls;  ///< Where they are given, processes of different hosts speak TLS.

  /// Whether collectives between hosts are made by this World; where the platform has its own, UCX is not
  /// needed.
  bool carries_data = true;

  /// By which ways collectives between hosts go, before the built-in table (WayTable); the same in all
  /// processes.
  std::string algorithms;

  /// This process's large blocks, which others of the host read where they are; null: they are handed over
  /// piece by piece. Used until the World is destroyed.
  const Arena* arena = nullptr;

  /// How long a communicator waits for a process of its clique to be connected. For the process's first
  /// collective with it no time is set: it may have much to do before.
  std::chrono::milliseconds timeout = std::chrono::seconds(300);

  /// Called when a process is seen to have died, and when one that has left in order is waited for; `doing`
  /// says what waited ("process 0 waited for it in psum ..."), empty where nothing did. Also, with `left` and
  /// nothing waiting, for one that is gone of which it is not known whether it had left in order. By any
  /// thread, perhaps several times for one process. Must not block. It may lead to `abort`.
  std::function<void(int process, bool left, const std::string& doing)> on_loss;

  /// Called by whoever finds that the processes diverge, with those that are not of the majority (all, where
  /// there is none), before anybody else is told and before it throws. By any thread, in each process that
  /// finds it. May block for a short while.
  std::function<void(const std::vector<int>& minority, const std::string& what)> on_divergence;

  /// A waiter that sees its peer dead waits this long for `abort`, which may know how the peer died; where
  /// there is `on_loss`, it waits so for that of a peer that has left too.
  std::chrono::milliseconds abort_grace = std::chrono::milliseconds(300);
};

/// All devices of all processes of the job, as collectives see them: the connections to the other processes
/// and the communicators over them. The processes of one host talk through shared memory, those of different
/// hosts through UCX. All methods may be called from any thread.
class World {
 public:
  /// Makes this process reachable and returns; connections are made in the background. Throws Error where the
  /// options contradict each other, `algorithms` is none, no socket can be opened, or the job is on several
  /// hosts and UCX is not to be had or no interface leads to others; InitializationError as
  /// coordination::Tls::load.
  static std::unique_ptr<World> create(WorldOptions options);

  /// Leaves. No collective may be in progress.
  virtual ~World() = default;

  /// The communicator of these devices, in this order, of which at least one must be local; lives as long as
  /// the World. The first call for a clique sets it up and blocks until the processes of its other devices
  /// have come. Throws Error where a device does not exist, stands twice, or belongs to a process that is not
  /// on the host it is said to be on, PeerFailure where a process of the clique has died or left,
  /// TimeoutError where one is not connected in time, DivergenceError where the others wait for this process
  /// elsewhere, and what `abort` gave. `doing` is for messages: what it is needed for.
  virtual Communicator& communicator(const std::vector<int>& devices, const std::string& doing = {}) = 0;

  /// Every collective of this process that waits, and every later one, throws `cause`. Only the first call
  /// counts.
  virtual void abort(std::exception_ptr cause) = 0;

  /// Every collective of the other processes that waits, and every later one, throws DivergenceError with
  /// this message.
  virtual void tell_divergence(const std::string& message) = 0;

  /// Goes away in order: a process that waits for this one gets PeerFailure, which says that it has left. To
  /// be called when this process has launched all its collectives and they are done.
  virtual void leave() = 0;

  /// What the processes take from each other besides.
  virtual Handouts& handouts() = 0;

  virtual const WorldOptions& options() const = 0;
};

}  // namespace lockstep::collectives
