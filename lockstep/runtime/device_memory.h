// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/sharding/device.h"

namespace lockstep::runtime {

/// "70.1 GiB of 79.6 GiB, at most 78.0 GiB so far"; empty if the plugin does not count it.
std::string describe_memory(Device device);

/// Records the use of this process's devices' memory for `lockstep status`, at most every half second. A
/// process calls it where that changes: no thread is needed, which would ask a plugin that is being unloaded.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::vector<Device> devices);

  /// May be called from any thread.
  void look() {
    if (counts_) look_if_due();
  }

 private:
  void look_if_due();

  const std::vector<Device> devices_;
  const bool counts_;
  std::atomic<std::int64_t> next_ns_ = 0;
};

}  // namespace lockstep::runtime
