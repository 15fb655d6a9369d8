// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/device_memory_stats.h"
#include "lockstep/base/function.h"

namespace lockstep {

/// The properties of one device of the job; the same on every process.
struct DeviceInfo {
  int id = 0;                        ///< global: 0 to D-1
  int process_index = 0;             ///< the process that can use it
  int local_ordinal = 0;             ///< its index among that process's devices
  std::string platform;              ///< "cpu", "cuda", "tpu"
  std::string kind;                  ///< the vendor's name of its type
  std::string host;                  ///< the name of its machine
  std::vector<std::int64_t> coords;  ///< its chip's position in the slice: x, y and z; empty for other
                                     ///< devices than TPUs
  int core_on_chip = 0;
  int slice_index = 0;
  std::int64_t memory_bytes = 0;  ///< 0: unknown
  int job = 0;                    ///< how many jobs this process was in before; may differ between processes
  std::function<std::optional<DeviceMemoryStats>()> memory_stats;  ///< empty for devices of other processes
};

/// A device of the job, in this or another process: a handle, cheap to copy. Its DeviceInfo belongs to the
/// runtime and lives as long as the process.
class Device {
 public:
  explicit Device(const DeviceInfo* info) : info_(info) {}

  int id() const { return info_->id; }
  int process_index() const { return info_->process_index; }
  int local_hardware_id() const { return info_->local_ordinal; }
  const std::string& platform() const { return info_->platform; }
  const std::string& device_kind() const { return info_->kind; }
  const std::string& host() const { return info_->host; }

  /// The position of a TPU's chip in the torus of its slice: x, y and z; empty for other devices.
  const std::vector<std::int64_t>& coords() const { return info_->coords; }

  /// The number of the core on its chip, if each core is a device; else 0.
  int core_on_chip() const { return info_->core_on_chip; }

  /// The number of a TPU's slice, if the job has several slices; else 0.
  int slice_index() const { return info_->slice_index; }

  /// The size of its memory in bytes, or 0 if unknown, as for CPUs.
  std::int64_t memory_bytes() const { return info_->memory_bytes; }

  /// The use of its memory now; nullopt for a device of another process, and if the plugin does not count it,
  /// as on CPU. Takes some microseconds.
  std::optional<DeviceMemoryStats> memory_stats() const {
    return info_->memory_stats ? info_->memory_stats() : std::nullopt;
  }

  /// How many jobs this process was in before the device's: 0 unless `initialize()` was called again after
  /// `shutdown()`.
  int job() const { return info_->job; }

  /// "CpuDevice(id=3)".
  std::string to_string() const;

  /// Compares the jobs, and then the ids.
  bool operator==(const Device& other) const { return id() == other.id() && job() == other.job(); }
  std::strong_ordering operator<=>(const Device& other) const {
    return job() == other.job() ? id() <=> other.id() : job() <=> other.job();
  }

 private:
  const DeviceInfo* info_;
};

inline std::string to_string(Device device) { return device.to_string(); }

}  // namespace lockstep

template <>
struct std::hash<lockstep::Device> {
  std::size_t operator()(const lockstep::Device& device) const noexcept {
    return std::hash<int>{}(device.id());
  }
};
