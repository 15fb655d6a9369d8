// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/base/device_memory_stats.h"
#include "lockstep/pjrt/device_description.h"

struct PJRT_Api;
struct PJRT_Device;

namespace lockstep::pjrt {

/// A device of a client. The client owns it. Devices are compared by address.
class Device {
 public:
  /// Unique among the devices of all processes that the client knows.
  int id() const { return description_.id; }

  /// Its position in `Client::addressable_devices()`.
  int local_ordinal() const { return local_ordinal_; }

  /// Its number on this host, as the vendor's libraries count the devices that this process may use: CUDA's
  /// ordinal.
  int local_hardware_id() const { return local_hardware_id_; }

  /// The number of its process, according to the client.
  int process_index() const { return description_.process_index; }

  /// The vendor's name of its type: "cpu", "NVIDIA H100 80GB HBM3".
  const std::string& kind() const { return description_.kind; }

  /// Everything that the plugin reports about it.
  const DeviceDescription& description() const { return description_; }

  /// The use of its memory now; nullopt if the plugin does not count it, as on CPU. May be called from any
  /// thread.
  std::optional<DeviceMemoryStats> memory_stats() const;

  /// The bytes of its memory that programs may use, if the plugin reports them.
  std::optional<std::int64_t> memory_bytes() const { return memory_bytes_; }

  /// Short, for users: "CpuDevice(id=0)".
  const std::string& to_string() const { return to_string_; }

  /// Long, for logs.
  const std::string& debug_string() const { return debug_string_; }

  PJRT_Device* get() const { return device_; }

 private:
  friend class Client;
  Device() = default;

  const PJRT_Api* api_ = nullptr;
  PJRT_Device* device_ = nullptr;
  DeviceDescription description_;
  int local_ordinal_ = 0, local_hardware_id_ = 0;
  std::optional<std::int64_t> memory_bytes_;
  std::string to_string_, debug_string_;
};

}  // namespace lockstep::pjrt
