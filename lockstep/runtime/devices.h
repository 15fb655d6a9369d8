// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/sharding/device.h"
#include "lockstep/sharding/mesh.h"

namespace lockstep {

// If `initialize()` was not called, each of these functions opens the local devices as a job of one process;
// after that `initialize()` throws an error, which names `where`.

/// This process's number in the job, from 0, and the number of processes.
int process_index(std::source_location where = std::source_location::current());
int process_count(std::source_location where = std::source_location::current());

/// The devices of all processes, by id: process 0's first. The same list on every process.
const std::vector<Device>& devices(std::source_location where = std::source_location::current());

/// This process's own.
const std::vector<Device>& local_devices(std::source_location where = std::source_location::current());

int device_count(std::source_location where = std::source_location::current());
int local_device_count(std::source_location where = std::source_location::current());

/// A mesh over all devices, in the order of their ids, so that the last axis is within a process if it fits.
/// The chips of a TPU slice are ordered by their positions, as create_device_mesh does with
/// allow_split_physical_axes. (Mesh's constructor takes any order.) One size may be -1; it is computed from
/// the others. Throws ShardingError unless the product of the sizes is the number of devices.
///   make_mesh({{"data", 4}, {"model", -1}})
Mesh make_mesh(const std::vector<std::pair<std::string, std::int64_t>>& axes,
               std::source_location where = std::source_location::current());

/// A mesh over these devices, of any processes. Only processes that have one of them may use it.
Mesh make_mesh(const std::vector<std::pair<std::string, std::int64_t>>& axes, std::vector<Device> devices,
               std::source_location where = std::source_location::current());

}  // namespace lockstep
