#pragma once

#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/sharding/device.h"
#include "lockstep/sharding/mesh.h"

namespace lockstep {

// Each of these opens the local devices, as a job of one process, if `initialize()` was not called; then it
// is too late for `initialize()`. `where` is what its error names.

/// This process's number in the job, from 0, and the number of processes.
int process_index(std::source_location where = std::source_location::current());
int process_count(std::source_location where = std::source_location::current());

/// The devices of all processes, by id: process 0's first. The same list on every process.
const std::vector<Device>& devices(std::source_location where = std::source_location::current());

/// This process's own.
const std::vector<Device>& local_devices(std::source_location where = std::source_location::current());

int device_count(std::source_location where = std::source_location::current());
int local_device_count(std::source_location where = std::source_location::current());

/// A mesh over all devices, in order of their ids, so that the last axis lies within a process where it fits;
/// those of a slice of TPUs by where their chips are, as create_device_mesh orders them with
/// allow_split_physical_axes. (Mesh's constructor takes any order.) One size may be -1: it is worked out.
/// Throws ShardingError where the sizes do not multiply to the number of devices.
///   make_mesh({{"data", 4}, {"model", -1}})
Mesh make_mesh(const std::vector<std::pair<std::string, std::int64_t>>& axes,
               std::source_location where = std::source_location::current());

/// The same over these devices, of some processes or some of each. Only processes that have one use it.
Mesh make_mesh(const std::vector<std::pair<std::string, std::int64_t>>& axes, std::vector<Device> devices,
               std::source_location where = std::source_location::current());

}  // namespace lockstep
