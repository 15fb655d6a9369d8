#pragma once

#include <string>

struct PJRT_Device;

namespace lockstep::pjrt {

/// A device of a client. Its client owns it and outlives it; its address names it.
class Device {
 public:
  /// Unique among the devices of all processes, as far as the client knows of them.
  int id() const { return id_; }

  /// Its position in `Client::addressable_devices()`.
  int local_ordinal() const { return local_ordinal_; }

  /// The process that it belongs to, as the client knows it.
  int process_index() const { return process_index_; }

  /// Its vendor's name for what it is: "cpu", "NVIDIA H100 80GB HBM3".
  const std::string& kind() const { return kind_; }

  /// Short, for users: "CpuDevice(id=0)".
  const std::string& to_string() const { return to_string_; }

  /// Long, for logs.
  const std::string& debug_string() const { return debug_string_; }

  PJRT_Device* get() const { return device_; }

 private:
  friend class Client;
  Device() = default;

  PJRT_Device* device_ = nullptr;
  int id_ = 0;
  int local_ordinal_ = 0;
  int process_index_ = 0;
  std::string kind_, to_string_, debug_string_;
};

}  // namespace lockstep::pjrt
