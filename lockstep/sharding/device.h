#pragma once

#include <compare>
#include <functional>
#include <string>

namespace lockstep {

/// What all processes know of a device.
struct DeviceInfo {
  int id = 0;             ///< among the devices of all processes: 0, 1, 2, …
  int process_index = 0;  ///< the process that it belongs to
  int local_ordinal = 0;  ///< among the devices of its process
  std::string platform;   ///< "cpu"
  std::string kind;       ///< its vendor's name for it
  std::string host;       ///< the name of the host that its process runs on
};

/// A device of the job: a handle, valid until the program ends.
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

  bool operator==(const Device& other) const { return id() == other.id(); }
  auto operator<=>(const Device& other) const { return id() <=> other.id(); }

 private:
  const DeviceInfo* info_;
};

}  // namespace lockstep

template <>
struct std::hash<lockstep::Device> {
  std::size_t operator()(const lockstep::Device& device) const { return std::hash<int>()(device.id()); }
};
