#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::runtime {

/// Devices of a process, one after the other, that are alike and whose numbers with the plugin follow each
/// other. Devices with coordinates are one each.
struct DeviceRun {
  std::string kind;
  std::int64_t first_plugin_id = 0;
  int count = 1;
  std::vector<std::int64_t> coords = {};
  int core_on_chip = 0, slice_index = 0;
  std::int64_t memory_bytes = 0;

  /// Whether `next`, a single device, is one more of this run.
  bool goes_on_with(const DeviceRun& next) const;

  bool operator==(const DeviceRun&) const = default;
};

/// 16 bytes that are the same for the same text only.
std::string packed_digest(std::string_view text);

/// What processes have in common that have the same devices and run the same machine code.
struct ProcessShape {
  std::string platform;
  std::string machine;  ///< a packed_digest; the same where machine code of one is good for the other
  std::vector<DeviceRun> devices;

  int device_count() const;
  bool operator==(const ProcessShape&) const = default;
};

struct HostEntry {
  std::string name;
  std::string identity;  ///< a packed_digest; the same for processes that share memory

  bool operator==(const HostEntry&) const = default;
};

/// What a process says of itself when the job begins.
struct ProcessEntry {
  HostEntry host;
  ProcessShape shape;
  std::int64_t pid = 0;
  std::uint64_t incarnation = 0;

  std::string encode() const;
};

/// All processes of the job. Encoded it has, besides some 40 bytes for each host, some 12 for each process.
class Topology {
 public:
  /// Of a process alone.
  explicit Topology(const ProcessEntry& only);

  /// Of what each process has encoded, in their order, and what only they are to know. Throws
  /// InitializationError where one is no ProcessEntry.
  Topology(const std::vector<std::string>& entries, std::string meeting);

  /// Throws InitializationError where it is no topology of so many processes.
  Topology(std::string_view encoded, int processes);

  std::string encode() const;

  int process_count() const { return static_cast<int>(pids_.size()); }
  const std::string& meeting() const { return meeting_; }
  const std::vector<HostEntry>& hosts() const { return hosts_; }
  int host_of(int process) const { return host_of_[static_cast<std::size_t>(process)]; }
  const HostEntry& host(int process) const { return hosts_[static_cast<std::size_t>(host_of(process))]; }
  const ProcessShape& shape(int process) const {
    return shapes_[static_cast<std::size_t>(shape_of_[static_cast<std::size_t>(process)])];
  }
  std::int64_t pid(int process) const { return pids_[static_cast<std::size_t>(process)]; }
  std::uint64_t incarnation(int process) const { return incarnations_[static_cast<std::size_t>(process)]; }

 private:
  std::string meeting_;
  std::vector<HostEntry> hosts_;
  std::vector<ProcessShape> shapes_;
  std::vector<int> host_of_, shape_of_;  // of each process
  std::vector<std::int64_t> pids_;
  std::vector<std::uint64_t> incarnations_;
};

}  // namespace lockstep::runtime
