// SPDX-License-Identifier: Apache-2.0
#include "lockstep/pjrt/compile_options.h"

#include <algorithm>
#include <cstring>

namespace lockstep::pjrt {
namespace {

// The wire format of protocol buffers: each field is a key (number * 8 + wire type) and its value.
enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2 };

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void put(std::string& out, int field, std::int64_t value) {
  put_varint(out, field << 3 | kVarint);
  put_varint(out, static_cast<std::uint64_t>(value));
}

void put(std::string& out, int field, double value) {
  put_varint(out, field << 3 | kFixed64);
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof bytes);
}

void put(std::string& out, int field, const std::string& value) {
  put_varint(out, field << 3 | kBytes);
  put_varint(out, value.size());
  out += value;
}

// OptionOverrideProto, with one of: string_field = 1, bool_field = 2, int_field = 3, double_field = 4.
struct PutOverride {
  std::string& out;
  void operator()(const std::string& value) { put(out, 1, value); }
  void operator()(bool value) { put(out, 2, std::int64_t{value}); }
  void operator()(std::int64_t value) { put(out, 3, value); }
  void operator()(double value) { put(out, 4, value); }
};

}  // namespace

std::string serialize(const CompileOptions& options, std::string_view platform) {
  std::string build;                // ExecutableBuildOptionsProto
  put(build, 1, std::int64_t{-1});  // device_ordinal: any
  const auto replicas = static_cast<std::int64_t>(std::max<std::size_t>(1, options.devices.size()));
  put(build, 4, replicas);         // num_replicas
  put(build, 5, std::int64_t{1});  // num_partitions
  std::string debug;               // DebugOptions
  for (const std::string& name : options.backend_options) {
    std::string entry;
    put(entry, 1, name);
    put(entry, 2, std::string());
    put(debug, 500, entry);  // xla_backend_extra_options, a map
  }
  if (!debug.empty()) put(build, 3, debug);
  if (!options.devices.empty()) {
    std::string ids, computation, assignment;  // DeviceAssignmentProto
    for (std::int64_t device : options.devices) put_varint(ids, static_cast<std::uint64_t>(device));
    put(computation, 1, ids);             // replica_device_ids, packed
    put(assignment, 1, replicas);         // replica_count
    put(assignment, 2, std::int64_t{1});  // computation_count
    put(assignment, 3, computation);      // computation_devices
    put(build, 9, assignment);            // device_assignment
  }
  std::string proto;                                     // CompileOptionsProto
  put(proto, 3, build);                                  // executable_build_options
  put(proto, 4, std::int64_t{options.devices.empty()});  // compile_portable_executable
  auto overrides = options.xla_options;
  // By default, maximum and minimum on CPU drop a NaN.
  if (platform == "cpu") overrides.try_emplace("xla_cpu_enable_fast_min_max", false);
  for (const auto& [name, value] : overrides) {
    std::string override_proto, entry;
    std::visit(PutOverride{override_proto}, value);
    put(entry, 1, name);
    put(entry, 2, override_proto);
    put(proto, 7, entry);  // env_option_overrides, a map
  }
  return proto;
}

}  // namespace lockstep::pjrt
