#pragma once

#include <compare>
#include <functional>
#include <string>

namespace lockstep {

/// What is known of one device of the job; the same on every process.
struct DeviceInfo {
  int id = 0;             ///< global, dense: 0 to D-1
  int process_index = 0;  ///< the process that can use it
  int local_ordinal = 0;  ///< its place among that process's devices
  std::string platform;   ///< "cpu", "cuda", "tpu"
  std::string kind;       ///< the vendor's name for it
  std::string host;       ///< the name of the machine it is in
};

/// A device of the job, of this or of another process: a handle, cheap to copy. Its DeviceInfo belongs to the
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

  /// "CpuDevice(id=3)".
  std::string to_string() const;

  /// By id.
  bool operator==(const Device& other) const { return id() == other.id(); }
  std::strong_ordering operator<=>(const Device& other) const { return id() <=> other.id(); }

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
