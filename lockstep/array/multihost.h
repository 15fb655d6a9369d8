// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>

#include "lockstep/array/array.h"
#include "lockstep/base/durations.h"
#include "lockstep/sharding/sharding.h"

/// Operations of all processes on values that each has for itself, as jax.experimental.multihost_utils. Every
/// process must make each call: if one makes another call, all get a DivergenceError; if one has died, a
/// PeerFailure.
namespace lockstep::multihost {

/// The x of all processes. For arrays on one process each, which must have the same shape and dtype: all of
/// them in order of the processes, along a new leading dimension or, if tiled, concatenated along the first.
/// For an array over several processes: the whole array. The result is on this process's first device.
Array process_allgather(const Array& x, bool tiled = false,
                        std::source_location where = std::source_location::current());

/// The exact x of the one process that is the source; by default process 0. The other processes pass an array
/// of the same shape and dtype. Throws Error if no process or several processes are the source.
Array broadcast_one_to_all(const Array& x, std::optional<bool> is_source = std::nullopt,
                           std::source_location where = std::source_location::current());

/// The array over all processes of which x is this process's part, and back: x is over the devices that this
/// process has in the mesh (Mesh::local_mesh), split by the spec, and a dimension that is split over
/// processes is larger by their number in the array over all. No elements are copied where x is split in this
/// way already. An array over several processes, and one of this process alone, are returned as they are.
/// Every process that takes part must call them. Throws ShardingError if this process's devices are not a
/// block of the mesh; then use make_array_from_process_local_data.
Array host_local_array_to_global_array(const Array& x, const Mesh& mesh, const PartitionSpec& spec,
                                       std::source_location where = std::source_location::current());
Array global_array_to_host_local_array(const Array& x, const Mesh& mesh, const PartitionSpec& spec,
                                       std::source_location where = std::source_location::current());

/// Blocks until all processes have called it with the same name, which may be any text. Throws TimeoutError,
/// which names missing processes.
void sync_global_devices(const std::string& name, std::chrono::milliseconds timeout = std::chrono::minutes(5),
                         std::source_location where = std::source_location::current());

/// Throws DivergenceError on every process, with `message` and the processes that differ, if x is not the
/// same everywhere: shape, dtype and bits. x must be readable on this process.
void assert_equal(const Array& x, const std::string& message = "",
                  std::source_location where = std::source_location::current());

/// Throws DivergenceError on every process, with each value and the processes that have it, if the value is
/// not the same everywhere: a learning rate, a number of steps, the name of a file. Numbers are compared by
/// their decimal text, which is different for any two doubles. Texts of any length are compared completely,
/// and shown in part. Blocks until all processes have called it.
///
///     multihost::agree("learning rate", lr);
void agree(const std::string& name, std::string_view value,
           std::source_location where = std::source_location::current());
void agree(const std::string& name, double value,
           std::source_location where = std::source_location::current());

template <class T>
requires std::is_integral_v<T>
void agree(const std::string& name, T value, std::source_location where = std::source_location::current()) {
  agree(name, std::string_view(std::to_string(value)), where);
}

}  // namespace lockstep::multihost
