// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <atomic>
#include <mutex>
#include <optional>

namespace lockstep::collectives {

/// Whether the devices of all processes of this host together are more than the CPUs on which they may run.
/// Then waiting threads must give their CPU away, because others need it. All methods may be called from any
/// thread.
class Crowding {
 public:
  /// `quota`: the number of CPUs that the control groups allow (cpu_quota()).
  explicit Crowding(std::optional<double> quota) : quota_(quota) {}

  /// Adds a process with this number of devices, which may run on these CPUs.
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
