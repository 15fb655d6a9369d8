// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/axis_env.h"
#include "lockstep/program/axis_sets.h"
#include "lockstep/program/primitives/apply.h"

namespace lockstep::ir {

/// Operations between devices along named mesh axes.
const Primitive& psum_p();
const Primitive& pmax_p();
const Primitive& pmin_p();
const Primitive& pvary_p();
const Primitive& all_gather_p();
const Primitive& psum_scatter_p();
const Primitive& all_to_all_p();
const Primitive& ppermute_p();
const Primitive& axis_index_p();

/// Its first operand, the result of a collective of the same program. The collective is started where it
/// stands, and awaited here: what is between runs meanwhile. The other operands are ignored; they are
/// computed before it waits. Written by sharding/overlap.h.
const Primitive& collective_done_p();

/// Groups of positions along the axes, each of which does the collective separately: JAX's axis_index_groups.
/// Each position is in one group, and all groups have one size. Not set: all positions are one group.
using IndexGroups = std::optional<std::vector<std::vector<int>>>;

struct AxesParams {
  static constexpr std::array<std::string_view, 2> kFields = {"axes", "groups"};
  std::vector<std::string> axes;
  IndexGroups groups = {};
};

/// For all_gather and psum_scatter: the dimension of the operand that is concatenated (split). They are
/// always tiled: the size of the dimension is multiplied (divided) by axis_size, the size of a group. `again`
/// marks an all_gather that repeats a previous one whose result was dropped, so that the compiler must not
/// merge the two.
struct GatherParams {
  static constexpr std::array<std::string_view, 5> kFields = {"axes", "axis_size", "dimension", "groups",
                                                              "again"};
  std::vector<std::string> axes;
  std::int64_t axis_size;
  std::int64_t dimension;
  IndexGroups groups = {};
  std::optional<bool> again = {};
};

/// all_to_all: split_dimension is split into axis_size parts, one for each device; the parts that a device
/// receives are concatenated along concat_dimension, in the order of the devices.
struct AllToAllParams {
  static constexpr std::array<std::string_view, 5> kFields = {"axes", "axis_size", "split_dimension",
                                                              "concat_dimension", "groups"};
  std::vector<std::string> axes;
  std::int64_t axis_size;
  std::int64_t split_dimension, concat_dimension;
  IndexGroups groups = {};
};

struct PermuteParams {
  static constexpr std::array<std::string_view, 3> kFields = {"axes", "axis_size", "pairs"};
  std::vector<std::string> axes;
  std::int64_t axis_size;
  std::vector<std::pair<int, int>> pairs;  ///< (source, target)
};

namespace lax {

/// Throws ShardingError if an axis is not in AxisEnv::current().
inline std::int64_t axis_size(const AxisNames& axes) { return AxisEnv::current().size(axes.names); }

/// The number of devices in a group.
std::int64_t group_size(const AxisNames& axes, const IndexGroups& groups);

/// psum, pmax, pmin: the sum, maximum or minimum over the devices along the axes; the same bits on all of
/// them. With groups, over the devices of the device's group.
template <Operand V>
V psum(const V& x, AxisNames axes, IndexGroups groups = {}) {
  return apply1<V>(psum_p(), OpParams::of(AxesParams{std::move(axes.names), std::move(groups)}), {x});
}
template <Operand V>
V pmax(const V& x, AxisNames axes, IndexGroups groups = {}) {
  return apply1<V>(pmax_p(), OpParams::of(AxesParams{std::move(axes.names), std::move(groups)}), {x});
}
template <Operand V>
V pmin(const V& x, AxisNames axes, IndexGroups groups = {}) {
  return apply1<V>(pmin_p(), OpParams::of(AxesParams{std::move(axes.names), std::move(groups)}), {x});
}

/// Marks x as a value that differs between the devices along the axes. The transpose of pvary is psum.
template <Operand V>
V pvary(const V& x, AxisNames axes) {
  return apply1<V>(pvary_p(), OpParams::of(AxesParams{std::move(axes.names)}), {x});
}

/// x made to vary over these axes (sorted), too; x itself if it already does.
template <Operand V>
V vary_over(const V& x, const std::vector<std::string>& axes) {
  std::vector<std::string> missing = minus(axes, x.aval().varying);
  return missing.empty() ? x : pvary(x, std::move(missing));
}

/// The devices' x, concatenated along the dimension.
template <Operand V>
V all_gather(const V& x, AxisNames axes, std::int64_t dimension, IndexGroups groups = {}) {
  std::int64_t n = group_size(axes, groups);
  return apply1<V>(all_gather_p(),
                   OpParams::of(GatherParams{std::move(axes.names), n, dimension, std::move(groups)}), {x});
}

/// This device's part, along the dimension, of the sum over the devices.
template <Operand V>
V psum_scatter(const V& x, AxisNames axes, std::int64_t dimension, IndexGroups groups = {}) {
  std::int64_t n = group_size(axes, groups);
  return apply1<V>(psum_scatter_p(),
                   OpParams::of(GatherParams{std::move(axes.names), n, dimension, std::move(groups)}), {x});
}

template <Operand V>
V all_to_all(const V& x, AxisNames axes, std::int64_t split_dimension, std::int64_t concat_dimension,
             IndexGroups groups = {}) {
  std::int64_t n = group_size(axes, groups);
  return apply1<V>(all_to_all_p(),
                   OpParams::of(AllToAllParams{std::move(axes.names), n, split_dimension, concat_dimension,
                                               std::move(groups)}),
                   {x});
}

/// Sends x from the source to the target of each pair; devices that are no target get zeros.
template <Operand V>
V ppermute(const V& x, AxisNames axes, std::vector<std::pair<int, int>> pairs) {
  std::int64_t n = lax::axis_size(axes);
  return apply1<V>(ppermute_p(), OpParams::of(PermuteParams{std::move(axes.names), n, std::move(pairs)}),
                   {x});
}

/// This device's position along the axes, in row-major order: i32[].
template <Operand V>
V axis_index(const V& like, AxisNames axes) {
  return apply_primitive_like(like, axis_index_p(), OpParams::of(AxesParams{std::move(axes.names)}));
}

}  // namespace lax
}  // namespace lockstep::ir
