// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/collectives.h"

#include "lockstep/ops/apply.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/shape.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep {
namespace {

/// The operand, if collectives are possible: in a trace with mesh axes.
Array operand(std::string_view operation, const Operand& x, const AxisNames& axes) {
  if (Trace::current() == nullptr) {
    fail<ShardingError>(
        "[{}] is called outside of shard_map, pmap and vmap{}; call it in a function under one of them",
        operation, ops::at());
  }
  try {
    ir::lax::axis_size(axes);
  } catch (const ShardingError& error) {
    fail<ShardingError>("[{}] {}{}", operation, error.what(), ops::at());
  }
  return x.as_array();
}

/// Bools as 0 and 1.
Array counted(const Array& x) {
  return x.dtype() == DType::kBool ? ir::lax::convert_element_type(x, DType::kI32) : x;
}

std::int64_t dimension(std::string_view operation, std::int64_t axis, const Array& x) {
  return ops::axis_of(operation, axis, x.ndim(), x.aval());
}

}  // namespace

Array psum(const Operand& x, const AxisNames& axes, ReduceOverDevicesOptions options) {
  CallSiteScope here(x.site());
  return ir::lax::psum(counted(operand("psum", x, axes)), axes, std::move(options.axis_index_groups));
}

Array pmean(const Operand& x, const AxisNames& axes, ReduceOverDevicesOptions options) {
  CallSiteScope here(x.site());
  const Array given = counted(operand("pmean", x, axes));
  const std::int64_t devices = ir::lax::group_size(axes, options.axis_index_groups);
  return divide(ir::lax::psum(given, axes, std::move(options.axis_index_groups)), devices);
}

Array pmax(const Operand& x, const AxisNames& axes, ReduceOverDevicesOptions options) {
  CallSiteScope here(x.site());
  return ir::lax::pmax(operand("pmax", x, axes), axes, std::move(options.axis_index_groups));
}

Array pmin(const Operand& x, const AxisNames& axes, ReduceOverDevicesOptions options) {
  CallSiteScope here(x.site());
  return ir::lax::pmin(operand("pmin", x, axes), axes, std::move(options.axis_index_groups));
}

Array all_gather(const Operand& x, const AxisNames& axes, AllGatherOptions options) {
  CallSiteScope here(x.site());
  Array part = operand("all_gather", x, axes);
  if (!options.tiled) part = expand_dims(part, options.axis);
  return ir::lax::all_gather(part, axes, dimension("all_gather", options.axis, part),
                             std::move(options.axis_index_groups));
}

Array psum_scatter(const Operand& x, const AxisNames& axes, PsumScatterOptions options) {
  CallSiteScope here(x.site());
  Array whole = counted(operand("psum_scatter", x, axes));
  const std::int64_t along = dimension("psum_scatter", options.scatter_dimension, whole);
  const std::int64_t size = whole.shape()[static_cast<std::size_t>(along)],
                     devices = ir::lax::group_size(axes, options.axis_index_groups);
  if (!options.tiled && size != devices) {
    fail<ShapeError>(
        "[psum_scatter] dimension {} of {} has size {}, expected {}, the number of devices{}; set .tiled to "
        "split a larger one",
        along, to_string(whole.aval()), size, devices, ops::at());
  }
  Array part = ir::lax::psum_scatter(whole, axes, along, std::move(options.axis_index_groups));
  return options.tiled ? part : squeeze(part, along);
}

Array all_to_all(const Operand& x, const AxisNames& axes, std::int64_t split_axis, std::int64_t concat_axis,
                 const AxisIndexGroups& axis_index_groups) {
  CallSiteScope here(x.site());
  Array given = operand("all_to_all", x, axes);
  return ir::lax::all_to_all(given, axes, dimension("all_to_all", split_axis, given),
                             dimension("all_to_all", concat_axis, given), axis_index_groups);
}

Array ppermute(const Operand& x, const AxisNames& axes, const std::vector<std::pair<int, int>>& pairs) {
  CallSiteScope here(x.site());
  return ir::lax::ppermute(operand("ppermute", x, axes), axes, pairs);
}

Array pshuffle(const Operand& x, const AxisNames& axes, const std::vector<int>& permutation) {
  CallSiteScope here(x.site());
  Array given = operand("pshuffle", x, axes);
  const std::int64_t devices = ir::lax::axis_size(axes);
  if (static_cast<std::int64_t>(permutation.size()) != devices) {
    fail<ShardingError>("[pshuffle] the permutation has {} entries, but there are {} devices{}",
                        permutation.size(), devices, ops::at());
  }
  std::vector<std::pair<int, int>> pairs;
  for (std::size_t i = 0; i < permutation.size(); ++i)
    pairs.emplace_back(permutation[i], static_cast<int>(i));
  return ir::lax::ppermute(given, axes, pairs);
}

Array pvary(const Operand& x, const AxisNames& axes) {
  CallSiteScope here(x.site());
  return ir::lax::pvary(operand("pvary", x, axes), axes);
}

Array axis_index(const AxisNames& axes, std::source_location where) {
  CallSiteScope here(CallSite::from(where));
  if (Trace::current() == nullptr) {
    fail<ShardingError>(
        "[axis_index] is called outside of shard_map, pmap and vmap{}; call it in a function under one of "
        "them",
        ops::at());
  }
  return apply_primitive(ir::axis_index_p(), ir::OpParams::of(ir::AxesParams{axes.names}),
                         std::span<const Array>())
      .front();
}

std::int64_t axis_size(const AxisNames& axes) { return ir::lax::axis_size(axes); }

}  // namespace lockstep
