// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/file_descriptor.h"
#include "lockstep/collectives/confirmations.h"
#include "lockstep/collectives/network.h"
#include "lockstep/collectives/world.h"

namespace lockstep::collectives {

/// A local device's own connection to the devices on other hosts. The thread that drives the device holds the
/// mutex, also while it waits, and makes the mailbox progress. Between operations the thread of Lanes does
/// so, because other devices may need an answer.
struct Lane {
  std::mutex mutex;
  std::atomic<int> wanted = 0;  ///< by drivers; the thread of Lanes leaves it to them
  std::unique_ptr<Mailbox> mailbox;
  std::map<int, int> endpoints;  ///< by device; those that are ready
  /// How long spinning was useful recently.
  std::chrono::nanoseconds spin = std::chrono::microseconds(200);
  enum { kDriven, kLeft, kLeftBusy } state = kLeft;
  bool used = false;  ///< since the thread's last look

  /// For the recorder: the connections to a device of this process, by endpoint.
  std::map<int, NotedLink> links;
  std::chrono::steady_clock::time_point links_noted{};
  bool unconfirmed = false;  ///< at that time, some had sent bytes that were not confirmed yet

  /// For a driver.
  std::unique_lock<std::mutex> lock();

  /// Notes what the kernel knows of the connection to an endpoint, which belongs to `process`.
  void note_link(int process, int endpoint);
  /// The same for all that are ready, but not more often than `interval`: returns whether it did.
  /// `device_process` as in WorldOptions.
  bool note_links(const std::vector<int>& device_process, std::chrono::milliseconds interval);
};

/// The lanes of all local devices of a job on several hosts. There are none in a job on one host, or if the
/// World does not carry the data.
class Lanes {
 public:
  /// The thread of Lanes has ended with this exception: the lanes make no progress between operations any
  /// more. Must not block.
  using OnError = std::function<void(std::exception_ptr)>;

  /// Throws as Network::open does.
  Lanes(const WorldOptions& options, OnError on_error);

  /// Uses these lanes, by device.
  Lanes(const WorldOptions& options, std::map<int, std::unique_ptr<Lane>> lanes, OnError on_error);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  Lane& of(int device) const { return *lanes_.at(device); }

  /// The mailbox address of each local device.
  std::map<int, std::string> addresses() const;

  /// The driver hands the lane over to the thread. `busy`: messages are in transit and must progress at once.
  void leave(Lane& lane, std::unique_lock<std::mutex>& lock, bool busy);

  /// Ends the sleep of all threads that wait for other hosts. May be called from any thread.
  void wake();

 private:
  void start();
  void see_to_lanes();
  bool see_to(Lane& lane, bool all, std::vector<pollfd>& polled, bool& unconfirmed);

  const std::vector<int> device_process_;
  const std::string who_;  // "process 1 of 4"
  const OnError on_error_;
  std::shared_ptr<Network> network_;
  std::map<int, std::unique_ptr<Lane>> lanes_;
  FileDescriptor changed_;  // an eventfd: the thread must look
  std::atomic<bool> asleep_ = false;
  std::atomic<bool> stop_ = false;
  std::thread thread_;  // in a job on several hosts
};

/// Whether the processes of the job are on several hosts.
bool spans_hosts(const WorldOptions& options);

/// The TLS of the control connections between hosts; null: plain text. Throws as World::create does.
std::shared_ptr<const coordination::Tls> tls_between_hosts(const WorldOptions& options);

/// Whether the process is on another host.
bool is_remote(const WorldOptions& options, int process);

}  // namespace lockstep::collectives
