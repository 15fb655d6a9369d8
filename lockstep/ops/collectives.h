// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <source_location>
#include <utility>
#include <vector>

#include "lockstep/ops/operand.h"
#include "lockstep/program/axis_names.h"

/// Collective operations between devices, within functions under shard_map and pmap; and between the examples
/// of a vmap with an axis_name. `axes` is the name of a mesh axis or of a vmap's axis, or several names
/// ({"data", "model"}). All devices along the axes must call the same collectives in the same order. Throws
/// ShardingError for an axis that the enclosing shard_map, pmap or vmap does not have, and outside of them.
namespace lockstep {

/// Groups of positions along the axes; each group does the collective by itself. Each position must be in
/// exactly one group, and all groups must have the same size (ShardingError otherwise). Not set: all devices
/// are one group.
using AxisIndexGroups = std::optional<std::vector<std::vector<int>>>;

struct ReduceOverDevicesOptions {
  AxisIndexGroups axis_index_groups = {};
};

/// psum, pmean, pmax, pmin: the sum, mean, maximum or minimum of x over the devices. All devices get the same
/// bits.
Array psum(const Operand& x, const AxisNames& axes, ReduceOverDevicesOptions options = {});
Array pmean(const Operand& x, const AxisNames& axes, ReduceOverDevicesOptions options = {});
Array pmax(const Operand& x, const AxisNames& axes, ReduceOverDevicesOptions options = {});
Array pmin(const Operand& x, const AxisNames& axes, ReduceOverDevicesOptions options = {});

struct AllGatherOptions {
  std::int64_t axis = 0;  ///< the dimension of the result along which the parts are arranged
  bool tiled = false;  ///< concatenate along that dimension; false: stack in a new dimension with one index
                       ///< for each device
  AxisIndexGroups axis_index_groups = {};
};

/// The x of all devices, in the order of the devices.
Array all_gather(const Operand& x, const AxisNames& axes, AllGatherOptions options = {});

struct PsumScatterOptions {
  std::int64_t scatter_dimension = 0;
  bool tiled = false;  ///< split that dimension; false: its size must be the number of devices, and it is
                       ///< removed
  AxisIndexGroups axis_index_groups = {};
};

/// This device's part of the sum over the devices.
Array psum_scatter(const Operand& x, const AxisNames& axes, PsumScatterOptions options = {});

/// Splits x along split_axis into one part for each device, sends them, and concatenates the received parts
/// along concat_axis, in the order of the devices.
Array all_to_all(const Operand& x, const AxisNames& axes, std::int64_t split_axis, std::int64_t concat_axis,
                 const AxisIndexGroups& axis_index_groups = {});

/// For each pair (source, target), sends x from the source to the target. Devices that are no target get
/// zeros.
Array ppermute(const Operand& x, const AxisNames& axes, const std::vector<std::pair<int, int>>& pairs);

/// Device i along the axes gets the x of device permutation[i]; each device must appear once in the
/// permutation.
Array pshuffle(const Operand& x, const AxisNames& axes, const std::vector<int>& permutation);

/// Marks x, which is the same on all devices along the axes, as a value that may differ between them. Then
/// each device has its own gradient of x, not the sum over the devices.
Array pvary(const Operand& x, const AxisNames& axes);

/// This device's position along the axes, in row-major order: an i32 scalar.
Array axis_index(const AxisNames& axes, std::source_location where = std::source_location::current());

/// The number of devices along the axes.
std::int64_t axis_size(const AxisNames& axes);

}  // namespace lockstep
