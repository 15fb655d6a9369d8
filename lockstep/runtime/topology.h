// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::runtime {

/// Consecutive equal devices of a process whose numbers in the plugin are consecutive, too. A device with
/// coordinates is a run of its own.
struct DeviceRun {
  std::string kind;
  std::int64_t first_plugin_id = 0;
  int count = 1;
  std::vector<std::int64_t> coords = {};
  int core_on_chip = 0, slice_index = 0;
  std::int64_t memory_bytes = 0;

  /// Whether `next`, a single device, continues this run.
  bool goes_on_with(const DeviceRun& next) const;

  bool operator==(const DeviceRun&) const = default;
};

/// A digest of 16 bytes of the text.
std::string packed_digest(std::string_view text);

/// The properties that processes with the same devices and the same machine code have in common.
struct ProcessShape {
  std::string platform;
  std::string machine;  ///< a packed_digest; equal if machine code of one is valid for the other
  std::vector<DeviceRun> devices;

  int device_count() const;
  bool operator==(const ProcessShape&) const = default;
};

struct HostEntry {
  std::string name;
  std::string identity;  ///< a packed_digest; equal for processes that share memory

  bool operator==(const HostEntry&) const = default;
};

/// A process's report about itself when the job starts.
struct ProcessEntry {
  HostEntry host;
  ProcessShape shape;
  std::int64_t pid = 0;
  std::uint64_t incarnation = 0;

  /// Addresses of the host's network interfaces. Virtual machines that were started from one snapshot may be
  /// alike in all else. Processes with the same HostEntry are taken to be on two hosts if each has an address
  /// that the other one lacks: addresses of a host may come and go while its processes start.
  std::vector<std::string> addresses = {};

  std::string encode() const;
};

/// Options of `initialize()` that all processes of a job must have alike.
struct CommonOptions {
  bool reproducible_sums = false, data_tls = false;
};

/// All processes of the job. Its encoding takes about 40 bytes for each host and 12 for each process.
class Topology {
 public:
  /// For a job of one process.
  explicit Topology(const ProcessEntry& only);

  /// From the encoded entry of each process, in order, and a string that only they are to know. Throws
  /// InitializationError if one is not a ProcessEntry.
  Topology(const std::vector<std::string>& entries, std::string meeting, const CommonOptions& options = {});

  /// Throws InitializationError unless it is the topology of this number of processes.
  Topology(std::string_view encoded, int processes);

  std::string encode() const;

  int process_count() const { return static_cast<int>(pids_.size()); }
  const std::string& meeting() const { return meeting_; }
  const CommonOptions& options() const { return options_; }  ///< as process 0 has them
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
  CommonOptions options_;
  std::vector<HostEntry> hosts_;
  std::vector<ProcessShape> shapes_;
  std::vector<int> host_of_, shape_of_;  // of each process
  std::vector<std::int64_t> pids_;
  std::vector<std::uint64_t> incarnations_;
};

}  // namespace lockstep::runtime
