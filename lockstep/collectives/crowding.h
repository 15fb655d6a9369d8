#pragma once

#include <sched.h>

#include <atomic>
#include <mutex>
#include <optional>

namespace lockstep::collectives {

/// Whether the devices of this host's processes, all together, are more than the CPUs that they may run on:
/// then whoever waits must give its CPU away, for another one needs it. All methods may be called from any
/// thread.
class Crowding {
 public:
  /// `quota`: so many CPUs' time the control groups give (cpu_quota()).
  explicit Crowding(std::optional<double> quota) : quota_(quota) {}

  /// There is a process with so many devices that may run on these CPUs.
  void add(const cpu_set_t& cpus, int devices);

  bool crowded() const { return crowded_.load(std::memory_order_relaxed); }

 private:
  const std::optional<double> quota_;
  std::mutex mutex_;
  cpu_set_t cpus_{};
  int devices_ = 0;
  std::atomic<bool> crowded_ = false;
};

}  // namespace lockstep::collectives
