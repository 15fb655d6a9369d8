#pragma once

#include <cstdint>
#include <optional>
#include <source_location>
#include <utility>
#include <vector>

#include "lockstep/ops/operand.h"
#include "lockstep/program/axis_names.h"

/// Operations between devices, within functions under shard_map and pmap; and between the examples of a vmap
/// with an axis_name. `axes` is the name of a mesh axis, or several ({"data", "model"}), or vmap's. Every
/// device along the axes must do the same collectives in the same order. Throws ShardingError for an axis
/// that is not one of those in force, and outside of shard_map, pmap and vmap.
namespace lockstep {

using AxisNames = lax::AxisNames;

/// Groups of places along the axes: each group does the collective by itself. Each place stands in one group,
/// and all groups have one size (ShardingError otherwise). Not set: all devices are one group.
using AxisIndexGroups = std::optional<std::vector<std::vector<int>>>;

struct ReduceOverDevicesOptions {
  AxisIndexGroups axis_index_groups = {};
};

/// The sum (mean, largest, smallest) of x over the devices; the same on all of them, to the bit.
Array psum(const Operand& x, const AxisNames& axes, ReduceOverDevicesOptions options = {});
Array pmean(const Operand& x, const AxisNames& axes, ReduceOverDevicesOptions options = {});
Array pmax(const Operand& x, const AxisNames& axes, ReduceOverDevicesOptions options = {});
Array pmin(const Operand& x, const AxisNames& axes, ReduceOverDevicesOptions options = {});

struct AllGatherOptions {
  std::int64_t axis = 0;  ///< the dimension along which the parts lie
  bool tiled =
      false;  ///< put together along that dimension; else it is a new one, of one index for each device
  AxisIndexGroups axis_index_groups = {};
};

/// Everyone's x, in the order of the devices.
Array all_gather(const Operand& x, const AxisNames& axes, AllGatherOptions options = {});

struct PsumScatterOptions {
  std::int64_t scatter_dimension = 0;
  bool tiled = false;  ///< cut that dimension; else its size is the number of devices, and it goes
  AxisIndexGroups axis_index_groups = {};
};

/// This device's part of the sum over the devices.
Array psum_scatter(const Operand& x, const AxisNames& axes, PsumScatterOptions options = {});

/// The parts of x along split_axis go each to one device; the parts that a device gets are put together along
/// concat_axis, in the order of the devices.
Array all_to_all(const Operand& x, const AxisNames& axes, std::int64_t split_axis, std::int64_t concat_axis,
                 const AxisIndexGroups& axis_index_groups = {});

/// Sends x from the source of each (source, target) to its target; who is no target gets zeros.
Array ppermute(const Operand& x, const AxisNames& axes, const std::vector<std::pair<int, int>>& pairs);

/// Device i along the axes gets the x of device permutation[i]; every device stands in it once.
Array pshuffle(const Operand& x, const AxisNames& axes, const std::vector<int>& permutation);

/// x, which is the same on all devices along the axes, as a value that may differ between them: its gradient
/// is then each device's own, not the sum over them.
Array pvary(const Operand& x, const AxisNames& axes);

/// This device's place along the axes, row-major: an i32 scalar.
Array axis_index(const AxisNames& axes, std::source_location where = std::source_location::current());

/// The number of devices along the axes.
std::int64_t axis_size(const AxisNames& axes);

}  // namespace lockstep
