#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {

/// What is known of one device of the job; the same on every process.
struct DeviceInfo {
  int id = 0;                        ///< global, dense: 0 to D-1
  int process_index = 0;             ///< the process that can use it
  int local_ordinal = 0;             ///< its place among that process's devices
  std::string platform;              ///< "cpu", "cuda", "tpu"
  std::string kind;                  ///< the vendor's name for it
  std::string host;                  ///< the name of the machine it is in
  std::vector<std::int64_t> coords;  ///< its chip's place in the slice: x, y and z; empty of what is no TPU
  int core_on_chip = 0;
  int slice_index = 0;
  std::int64_t memory_bytes = 0;  ///< 0: not known
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

  /// Where its chip is in the torus of its slice: x, y and z of a TPU; empty of other devices.
  const std::vector<std::int64_t>& coords() const { return info_->coords; }

  /// Which of the chip's cores it is, where each is a device; else 0.
  int core_on_chip() const { return info_->core_on_chip; }

  /// Which slice it is in, of TPUs that several slices have together; else 0.
  int slice_index() const { return info_->slice_index; }

  /// The bytes of its memory, or 0 where they are not known, as of CPUs.
  std::int64_t memory_bytes() const { return info_->memory_bytes; }

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
