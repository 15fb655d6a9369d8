// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/program/program.h"
#include "lockstep/sharding/split.h"

namespace lockstep::sharding {

/// The fixed cost of a collective, in bytes. It decides between small alternatives.
inline constexpr double kPerCollective = 1024;

/// One step from one layout of a value to another.
struct ReshardStep {
  enum class Kind : std::uint8_t {
    kSlice,          ///< each device keeps its part of `dimension`; free
    kAllToAll,       ///< the axes move from `from_dimension` to `dimension`
    kAllGather,      ///< `dimension` is gathered over the axes
    kPermute,        ///< parts of equal size move to other devices along the axes
    kReduceScatter,  ///< reduces over the axes, which then split `dimension`
    kAllReduce,      ///< reduces over the axes
    kOnce,  ///< the first device along the axes keeps the value, the others take the neutral element; free
  } kind;
  Axes axes;
  std::size_t dimension = 0;
  std::size_t from_dimension = 0;                      ///< for kAllToAll
  Partial::Combine combine = Partial::Combine::kNone;  ///< for kAllReduce and kOnce
  Split before = {}, after = {};                       ///< for kPermute
  bool in_parts = false;                               ///< the axes are parts of mesh axes

  bool is_collective() const { return kind != Kind::kSlice && kind != Kind::kOnce; }

  /// The layout of the value after the step.
  Layout apply(Layout layout, const Grid& grid) const;
};

/// The steps from one layout to another, ordered to move few bytes: reduce-scatters and slices as early as
/// possible, then the remaining reductions, then moves between dimensions, and gathers last. Permutes are
/// used if they save bytes, and parts of axes are permuted before other moves. If `to` is partial, `from`
/// must be partial with the same combine, or not at all.
std::vector<ReshardStep> plan_reshard(const Layout& from, const Layout& to, const Grid& grid);

/// The split in which a partial value can be reduced at the lowest cost on its way to `wanted`: after the
/// reduce-scatters that lead there.
Split reduced_split(const Layout& from, const Split& wanted);

/// The bytes that a device receives in the steps. `global` is the type of the whole value.
double received_bytes(const std::vector<ReshardStep>& steps, const Aval& global, const Layout& from,
                      const Grid& grid);

/// The cost of the steps: received_bytes, and kPerCollective for each collective.
double cost(const std::vector<ReshardStep>& steps, const Aval& global, const Layout& from, const Grid& grid);

/// Writes the equations of steps. Values that only depend on the device's position are computed once.
class Resharder {
 public:
  Resharder(ir::Builder& builder, const Grid& grid) : builder_(builder), grid_(grid) {}

  /// Writes consecutive slices as one. AxisEnv::current() must be the grid's.
  ir::Value slice(const ir::Value& value, const std::vector<ReshardStep>& slices);

  /// Writes a collective.
  ir::Value exchange(const ir::Value& value, const ReshardStep& step);

  /// The start of the device's part, if the dimension is split over the axes into parts of this size.
  ir::Value start(const Axes& axes, std::int64_t part_size, DType dtype);

  /// The value on the first device along the axes, and the neutral element of the reduction on the others.
  ir::Value once(const ir::Value& value, const ReshardStep& step);

 private:
  ir::Value place(const Axes& axes);
  std::vector<std::pair<int, int>> new_owners(const ReshardStep& step) const;
  ir::Value put_together(const ir::Value& value, const std::vector<std::string>& axes,
                         Partial::Combine combine);
  ir::Value constant(std::int64_t value, DType dtype);

  ir::Builder& builder_;
  const Grid& grid_;
  std::map<std::pair<std::int64_t, DType>, ir::Value> constants_;
  std::map<Axes, ir::Value> places_;
  std::map<std::tuple<Axes, std::int64_t, DType>, ir::Value> starts_;
};

}  // namespace lockstep::sharding
