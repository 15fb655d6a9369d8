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

#include "lockstep/collectives/file_descriptor.h"
#include "lockstep/collectives/network.h"
#include "lockstep/collectives/world.h"

namespace lockstep::collectives {

/// A local device's own way to the devices on other hosts. Whoever drives the device holds the mutex, also
/// while it waits, and makes the mailbox move; in between the thread of Lanes does, for others may need an
/// answer to be done.
struct Lane {
  std::mutex mutex;
  std::unique_ptr<Mailbox> mailbox;
  std::map<int, int> endpoints;  ///< By device; those that are ready for use.
  /// How long it is worth to spin, as it was lately.
  std::chrono::nanoseconds spin = std::chrono::microseconds(200);
  enum { kDriven, kLeft, kLeftBusy } state = kLeft;
  bool used = false;  ///< Since the thread looked last.
};

/// The lanes of all local devices of a job that is on several hosts; none in a job on one, or whose data the
/// World does not carry.
class Lanes {
 public:
  /// The thread of Lanes has ended by this exception: the lanes move no more between operations. Must not
  /// block.
  using OnError = std::function<void(std::exception_ptr)>;

  /// Throws as Network::open.
  Lanes(const WorldOptions& options, OnError on_error);

  /// With these lanes, by device.
  Lanes(const WorldOptions& options, std::map<int, std::unique_ptr<Lane>> lanes, OnError on_error);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  Lane& of(int device) const { return *lanes_.at(device); }

  /// The mailbox address of each local device.
  std::map<int, std::string> addresses() const;

  /// The driver leaves the lane to the thread. `busy`: it has messages on their way, which must move at once.
  void leave(Lane& lane, std::unique_lock<std::mutex>& lock, bool busy);

  /// Ends the sleep of all who wait for other hosts. May be called from any thread.
  void wake();

 private:
  void start();
  void see_to_lanes();
  bool see_to(Lane& lane, bool all, std::vector<pollfd>& polled);

  const std::string who_;  // "process 1 of 4"
  const OnError on_error_;
  std::shared_ptr<Network> network_;
  std::map<int, std::unique_ptr<Lane>> lanes_;
  FileDescriptor changed_;  // An eventfd: the thread must look.
  std::atomic<bool> asleep_ = false;
  std::atomic<bool> stop_ = false;
  std::thread thread_;  // Of a job on several hosts.
};

/// Whether the processes of the job are on several hosts.
bool spans_hosts(const WorldOptions& options);

/// Whether the process is on another host than this one.
bool is_remote(const WorldOptions& options, int process);

}  // namespace lockstep::collectives
