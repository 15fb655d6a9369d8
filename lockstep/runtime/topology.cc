// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/topology.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "lockstep/base/digest.h"
#include "lockstep/base/fail.h"
#include "topology.pb.h"

namespace lockstep::runtime {
namespace {

constexpr std::size_t kDigestBytes = 16;

wire::Host host_to_wire(const HostEntry& host) {
  wire::Host to;
  to.set_name(host.name);
  to.set_identity(host.identity);
  return to;
}

wire::Shape shape_to_wire(const ProcessShape& shape) {
  wire::Shape to;
  to.set_platform(shape.platform);
  to.set_machine(shape.machine);
  for (const DeviceRun& run : shape.devices) {
    wire::Devices& devices = *to.add_devices();
    devices.set_kind(run.kind);
    devices.set_first_plugin_id(run.first_plugin_id);
    devices.set_count(static_cast<std::uint32_t>(run.count));
    for (const std::int64_t coord : run.coords) devices.add_coords(coord);
    devices.set_core_on_chip(static_cast<std::uint32_t>(run.core_on_chip));
    devices.set_slice_index(static_cast<std::uint32_t>(run.slice_index));
    devices.set_memory_bytes(static_cast<std::uint64_t>(run.memory_bytes));
  }
  return to;
}

HostEntry host_from_wire(const wire::Host& from) { return {from.name(), from.identity()}; }

ProcessShape shape_from_wire(const wire::Shape& from) {
  ProcessShape shape{from.platform(), from.machine(), {}};
  for (const wire::Devices& run : from.devices())
    shape.devices.push_back({.kind = run.kind(),
                             .first_plugin_id = run.first_plugin_id(),
                             .count = static_cast<int>(run.count()),
                             .coords = {run.coords().begin(), run.coords().end()},
                             .core_on_chip = static_cast<int>(run.core_on_chip()),
                             .slice_index = static_cast<int>(run.slice_index()),
                             .memory_bytes = static_cast<std::int64_t>(run.memory_bytes())});
  return shape;
}

/// Whether an int holds the number of its devices.
bool is_countable(const wire::Shape& shape) {
  std::uint64_t count = 0;
  for (const wire::Devices& run : shape.devices()) count += run.count();
  return std::in_range<int>(count);
}

[[noreturn]] void fail_unreadable(std::string_view what) {
  fail<InitializationError>(
      "[initialize] {} cannot be read: are all processes built from the same version of Lockstep?", what);
}

/// Assigns numbers to values that repeat often, mostly the last one.
template <class T>
class Numbers {
 public:
  explicit Numbers(std::vector<T>& all) : all_(all) {}

  int of(const T& value) {
    if (last_ >= 0 && all_[static_cast<std::size_t>(last_)] == value) return last_;
    const auto [it, added] = known_.try_emplace(key(value), static_cast<int>(all_.size()));
    if (added) all_.push_back(value);
    return last_ = it->second;
  }

 private:
  static std::string key(const HostEntry& host) { return host_to_wire(host).SerializeAsString(); }
  static std::string key(const ProcessShape& shape) { return shape_to_wire(shape).SerializeAsString(); }

  std::vector<T>& all_;
  std::map<std::string, int> known_;
  int last_ = -1;
};

/// Whether each has an address that the other one lacks.
bool are_of_two_hosts(const std::set<std::string>& a, const std::set<std::string>& b) {
  return !std::ranges::includes(a, b) && !std::ranges::includes(b, a);
}

/// Hosts whose entries are equal, and which only their addresses tell apart.
class HostsAlike {
 public:
  /// Gives the host of a process an identity of its own if it is not the first of its kind.
  void tell_apart(HostEntry& host, const std::set<std::string>& addresses) {
    std::vector<std::set<std::string>>& kind = known_[{host.name, host.identity}];
    const auto fits = [&](const auto& others) { return !are_of_two_hosts(addresses, others); };
    const auto at = std::ranges::find_if(kind, fits);
    const auto number = at - kind.begin();
    if (at == kind.end()) kind.push_back(addresses);
    if (number > 0) host.identity = packed_digest(fmt::format("{} {}", host.identity, number));
  }

 private:
  std::map<std::pair<std::string, std::string>, std::vector<std::set<std::string>>> known_;
};

}  // namespace

std::string packed_digest(std::string_view text) {
  const std::string hex = digest(text);
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

bool DeviceRun::goes_on_with(const DeviceRun& next) const {
  return coords.empty() && next.coords.empty() && kind == next.kind &&
         first_plugin_id + count == next.first_plugin_id && core_on_chip == next.core_on_chip &&
         slice_index == next.slice_index && memory_bytes == next.memory_bytes;
}

int ProcessShape::device_count() const {
  int count = 0;
  for (const DeviceRun& run : devices) count += run.count;
  return count;
}

std::string ProcessEntry::encode() const {
  wire::Process to;
  *to.mutable_host() = host_to_wire(host);
  *to.mutable_shape() = shape_to_wire(shape);
  to.set_pid(static_cast<std::uint64_t>(pid));
  to.set_incarnation(incarnation);
  for (const std::string& address : addresses) to.add_addresses(address);
  return to.SerializeAsString();
}

Topology::Topology(const ProcessEntry& only) : Topology(std::vector{only.encode()}, "") {}

Topology::Topology(const std::vector<std::string>& entries, std::string meeting, const CommonOptions& options)
    : meeting_(std::move(meeting)), options_(options) {
  Numbers<HostEntry> hosts(hosts_);
  HostsAlike alike;
  Numbers<ProcessShape> shapes(shapes_);
  for (std::size_t process = 0; process < entries.size(); ++process) {
    wire::Process from;
    if (!from.ParseFromString(entries[process]) || from.host().identity().size() != kDigestBytes ||
        !is_countable(from.shape()))
      fail_unreadable(fmt::format("what process {} of {} says of its devices", process, entries.size()));
    HostEntry host = host_from_wire(from.host());
    alike.tell_apart(host, {from.addresses().begin(), from.addresses().end()});
    host_of_.push_back(hosts.of(host));
    shape_of_.push_back(shapes.of(shape_from_wire(from.shape())));
    pids_.push_back(static_cast<std::int64_t>(from.pid()));
    incarnations_.push_back(from.incarnation());
  }
}

Topology::Topology(std::string_view encoded, int processes) {
  wire::Topology from;
  const auto check = [](bool fits) {
    if (!fits) fail_unreadable("what process 0 says of all processes");
  };
  check(from.ParseFromArray(encoded.data(), static_cast<int>(encoded.size())));
  meeting_ = from.meeting();
  options_ = {.reproducible_sums = from.reproducible_sums(), .data_tls = from.data_tls()};
  for (const wire::Host& host : from.hosts()) {
    check(host.identity().size() == kDigestBytes);
    hosts_.push_back(host_from_wire(host));
  }
  for (const wire::Shape& shape : from.shapes()) {
    check(is_countable(shape));
    shapes_.push_back(shape_from_wire(shape));
  }
  const auto count = static_cast<std::size_t>(processes);
  for (const wire::Run& run : from.runs()) {
    check(run.host() < hosts_.size() && run.shape() < shapes_.size() &&
          run.processes() <= count - host_of_.size());
    host_of_.insert(host_of_.end(), run.processes(), static_cast<int>(run.host()));
    shape_of_.insert(shape_of_.end(), run.processes(), static_cast<int>(run.shape()));
  }
  pids_.assign(from.pids().begin(), from.pids().end());
  incarnations_.assign(from.incarnations().begin(), from.incarnations().end());
  check(host_of_.size() == count && pids_.size() == count && incarnations_.size() == count);
}

std::string Topology::encode() const {
  wire::Topology to;
  to.set_meeting(meeting_);
  to.set_reproducible_sums(options_.reproducible_sums);
  to.set_data_tls(options_.data_tls);
  for (const HostEntry& host : hosts_) *to.add_hosts() = host_to_wire(host);
  for (const ProcessShape& shape : shapes_) *to.add_shapes() = shape_to_wire(shape);
  wire::Run* run = nullptr;
  for (std::size_t process = 0; process < pids_.size(); ++process) {
    const auto host = static_cast<std::uint32_t>(host_of_[process]),
               shape = static_cast<std::uint32_t>(shape_of_[process]);
    if (run == nullptr || run->host() != host || run->shape() != shape) {
      run = to.add_runs();
      run->set_host(host);
      run->set_shape(shape);
    }
    run->set_processes(run->processes() + 1);
    to.add_pids(static_cast<std::uint64_t>(pids_[process]));
    to.add_incarnations(incarnations_[process]);
  }
  return to.SerializeAsString();
}

}  // namespace lockstep::runtime
