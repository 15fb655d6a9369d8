#pragma once

#include "lockstep/program/axis_env.h"
#include "lockstep/program/axis_sets.h"
#include "lockstep/program/primitives/apply.h"

namespace lockstep {

/// Operations between the devices along named mesh axes.
const Primitive& psum_p();
const Primitive& pmax_p();
const Primitive& pmin_p();
const Primitive& pvary_p();
const Primitive& all_gather_p();
const Primitive& psum_scatter_p();
const Primitive& all_to_all_p();
const Primitive& ppermute_p();
const Primitive& axis_index_p();

/// Groups of places along the axes that do a collective among themselves, JAX's axis_index_groups: each place
/// in one group, all of one size. Not set: all places are one group.
using IndexGroups = std::optional<std::vector<std::vector<int>>>;

struct AxesParams {
  static constexpr std::array<std::string_view, 2> kFields = {"axes", "groups"};
  std::vector<std::string> axes;
  IndexGroups groups = {};
};

/// Of all_gather and psum_scatter: the dimension of the operand that is put together (split), always tiled:
/// the dimension's size is multiplied (divided) by axis_size, the size of a group. An all_gather may be
/// `again` of what was gathered before and not kept: the compiler is kept from taking that.
struct GatherParams {
  static constexpr std::array<std::string_view, 5> kFields = {"axes", "axis_size", "dimension", "groups",
                                                              "again"};
  std::vector<std::string> axes;
  std::int64_t axis_size;
  std::int64_t dimension;
  IndexGroups groups = {};
  std::optional<bool> again = {};
};

/// all_to_all: split_dimension is cut into axis_size parts, one for each device; the parts that a device gets
/// are put together along concat_dimension, in the order of the devices.
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

/// Throws ShardingError where an axis is not one of AxisEnv::current().
inline std::int64_t axis_size(const AxisNames& axes) { return AxisEnv::current().size(axes.names); }

/// The number of devices in a group.
std::int64_t group_size(const AxisNames& axes, const IndexGroups& groups);

/// The sum (largest, smallest) over the devices along the axes; the same on all of them, to the bit. With
/// groups, over those of the device's group.
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

/// x, taken to differ between the devices along the axes. Its transpose is psum.
template <Operand V>
V pvary(const V& x, AxisNames axes) {
  return apply1<V>(pvary_p(), OpParams::of(AxesParams{std::move(axes.names)}), {x});
}

/// x made to vary over these axes (sorted), too; itself where it does.
template <Operand V>
V vary_over(const V& x, const std::vector<std::string>& axes) {
  std::vector<std::string> missing = minus(axes, x.aval().varying);
  return missing.empty() ? x : pvary(x, std::move(missing));
}

/// Everyone's x, one after the other along the dimension.
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

/// Sends x from the source of each pair to its target; who is no target gets zeros.
template <Operand V>
V ppermute(const V& x, AxisNames axes, std::vector<std::pair<int, int>> pairs) {
  std::int64_t n = axis_size(axes);
  return apply1<V>(ppermute_p(), OpParams::of(PermuteParams{std::move(axes.names), n, std::move(pairs)}),
                   {x});
}

/// This device's place along the axes, row-major: i32[].
template <Operand V>
V axis_index(const V& like, AxisNames axes) {
  return apply_primitive_like(like, axis_index_p(), OpParams::of(AxesParams{std::move(axes.names)}));
}

}  // namespace lax
}  // namespace lockstep
