// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/options.h"
#include "lockstep/collectives/network.h"
#include "lockstep/coordination/client/key_value_store.h"
#include "lockstep/coordination/identity/identity.h"

namespace lockstep::collectives {

class Arena;

class Communicator;
class Handouts;

/// The host of this process, the same text for all processes that can share memory: the running kernel, the
/// network namespace, and the host's name.
std::string host_identity();

struct WorldOptions {
  int process_index = 0;
  int process_count = 1;

  /// The process of each global device; global device ids are 0, 1, 2, …
  std::vector<int> device_process;

  /// The host of each process, as returned by its `host_identity()`: processes of one host share memory,
  /// processes of different hosts a network. Empty: all are on this host.
  std::vector<std::string> process_host;

  /// The network that transports data to other hosts, and the number of connections to each device there
  /// (NetworkOptions).
  std::string network;
  int data_connections = options::kDataConnections.otherwise;

  /// How much memory messages that no operation has asked for yet hold for each device (NetworkOptions).
  int unexpected_messages_mib = options::kUnexpectedMessagesMib.otherwise;

  /// The network interface for connections to other hosts; if empty, interface_to_others of
  /// `coordinator_address` ("host:port", may be empty).
  std::string interface;
  std::string coordinator_address;

  /// The store through which the processes find each other; used until the World is destroyed. May be null in
  /// a job of one process.
  coordination::KeyValueStore* store = nullptr;
  std::string job_id;  ///< separates the jobs that share a store

  /// A secret of the processes of this start of the job, the same for all: processes of one host derive each
  /// other's addresses from it. Empty: the addresses are in the store.
  std::string meeting;
  std::string
      job_secret;  ///< processes of different hosts prove to each other that they know it; may be empty
  coordination::TlsFiles tls;  ///< if set, control connections between hosts use TLS with these

  /// Everything that processes of different hosts send to each other is encrypted: TLS with `tls`, or with a
  /// key from `job_secret`; the same in all processes.
  bool encrypt = false;

  /// Whether this World implements the collectives between hosts. If the platform has its own, no
  /// Network is opened.
  bool carries_data = true;

  /// The user's algorithms for collectives between hosts, which precede the built-in table (AlgorithmTable);
  /// the same in all processes.
  std::string algorithms;

  /// Sums and products of floats are computed in one order, which depends on the positions of a group's
  /// members only (SumTree); the same in all processes.
  bool reproducible_sums = false;

  /// This process's large blocks, which others of the host read in place; null: they are sent in pieces. Used
  /// until the World is destroyed.
  const Arena* arena = nullptr;

  /// How long a communicator waits for a process of its clique to be connected. There is no limit for the
  /// first collective with a process, because the process may have much to do before.
  std::chrono::milliseconds timeout = std::chrono::seconds(300);

  /// Called when a process is seen to have died, and when a process that has left in order is waited for.
  /// `doing` describes the wait ("process 0 waited for it in psum ..."), and is empty if there is none. Also
  /// called, with `left` and without a wait, for a process that is gone and may have left in order. Called on
  /// any thread, possibly several times for one process. Must not block. It may call `abort`.
  std::function<void(int process, bool left, const std::string& doing)> on_loss;

  /// Called when the processes are found to diverge, with those that are not in the majority (all, if there
  /// is none), before other processes are told and before the exception is thrown. Called on any thread, in
  /// each process that finds it. May block for a short time.
  std::function<void(const std::vector<int>& minority, const std::string& what)> on_divergence;

  /// A wait whose peer has died waits this long for `abort`, which may know how the peer died; with
  /// `on_loss`, it also does so for a peer that has left.
  std::chrono::milliseconds abort_grace = std::chrono::milliseconds(300);
};

/// All devices of all processes of the job, as collectives see them: the connections to the other processes
/// and the communicators that use them. Processes of one host use shared memory, processes of different hosts
/// a Network. All methods may be called from any thread.
class World {
 public:
  /// Makes this process reachable and returns; connections are made in the background. Throws Error if the
  /// options contradict each other, `algorithms` is invalid, no socket can be opened, or the job is on
  /// several hosts and Network::open throws it; InitializationError as coordination::Tls::load does, and in a
  /// job on several hosts with `encrypt` that has neither certificates nor a secret.
  static std::unique_ptr<World> create(WorldOptions options);

  /// Leaves. No collective may be in progress.
  virtual ~World() = default;

  /// The communicator of these devices, in this order; at least one must be local. It lives as long as the
  /// World. The first call for a clique sets it up, and blocks until the processes of its other devices have
  /// arrived. `doing` describes its purpose, for messages; `device` is the local one that the calling thread
  /// drives, -1 for the first in the list. Of the same devices in different orders, all processes must make
  /// the communicators one after the other. Throws Error if a device does not exist, appears twice, or
  /// belongs to a process that is not on the host where it should be; PeerFailure if a process of the clique
  /// has died or left; TimeoutError if one is not connected in time; DivergenceError if another process lists
  /// the devices in another order, or if the others wait for this process elsewhere; and the cause given to
  /// `abort`.
  virtual Communicator& communicator(const std::vector<int>& devices, const std::string& doing = {},
                                     int device = -1) = 0;

  /// Waiting and later collectives of this process throw `cause`; those of the other processes, too, if it is
  /// a PeerFailure or a DivergenceError. Only the first call has an effect.
  virtual void abort(std::exception_ptr cause) = 0;

  /// Leaves in order: a process that waits for this one gets a PeerFailure that says so. Call it when all
  /// collectives of this process are done.
  virtual void leave() = 0;

  /// Other data that the processes take from each other.
  virtual Handouts& handouts() = 0;

  virtual const WorldOptions& options() const = 0;
};

}  // namespace lockstep::collectives
