#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/program/program.h"
#include "lockstep/sharding/split.h"

namespace lockstep::sharding {

/// What a collective costs besides its bytes, in bytes: it settles small cases.
inline constexpr double kPerCollective = 1024;

/// One step from one layout of a value to another.
struct ReshardStep {
  enum class Kind : std::uint8_t {
    kSlice,          ///< each device keeps its part of `dimension`: free
    kAllToAll,       ///< the axes move from `from_dimension` to `dimension`
    kAllGather,      ///< `dimension` is put together over the axes
    kPermute,        ///< parts of one size change their owners along the axes
    kReduceScatter,  ///< sums over the axes, which split `dimension` then
    kAllReduce,      ///< the value is put together over the axes
    kOnce,           ///< the first device along the axes keeps the value, for others it counts nothing: free
  } kind;
  Axes axes;
  std::size_t dimension = 0;
  std::size_t from_dimension = 0;                      ///< of kAllToAll
  Partial::Combine combine = Partial::Combine::kNone;  ///< of kAllReduce and kOnce
  Split before = {}, after = {};                       ///< of kPermute
  bool in_parts = false;  ///< the axes are parts of the mesh's, where those have some

  bool is_collective() const { return kind != Kind::kSlice && kind != Kind::kOnce; }

  /// How the value is after the step.
  Layout apply(Layout layout, const Grid& grid) const;
};

/// The steps from one layout to another: reduce-scatters and slices as soon as they can be, then what is left
/// to be put together, then moves, and the rest is gathered, so that few bytes travel; a permute where that
/// saves some, and moves of parts of axes before it. What is partial in `to` has to be so in `from` by the
/// same combine, or not at all.
std::vector<ReshardStep> plan_reshard(const Layout& from, const Layout& to, const Grid& grid);

/// The split in which a partial value is had for the least on its way to `wanted`: reduce-scatters that lead
/// there are done.
Split reduced_split(const Layout& from, const Split& wanted);

/// The bytes that a device receives in the steps. `global` is the value's.
double received_bytes(const std::vector<ReshardStep>& steps, const Aval& global, const Layout& from,
                      const Grid& grid);

/// What the steps cost: these bytes, and some for each collective.
double cost(const std::vector<ReshardStep>& steps, const Aval& global, const Layout& from, const Grid& grid);

/// Writes the steps' equations. What depends on the device's place only is written once.
class Resharder {
 public:
  Resharder(Builder& builder, const Grid& grid) : builder_(builder), grid_(grid) {}

  /// Consecutive slices become one. AxisEnv::current() must be the grid's.
  Value slice(const Value& value, const std::vector<ReshardStep>& slices);

  /// A collective.
  Value exchange(const Value& value, const ReshardStep& step);

  /// Where the device's part begins, which is one of equal ones of this size over the axes.
  Value start(const Axes& axes, std::int64_t part_size, DType dtype);

  /// The value on the first device along the axes, and on the others what changes nothing.
  Value once(const Value& value, const ReshardStep& step);

 private:
  Value place(const Axes& axes);
  std::vector<std::pair<int, int>> new_owners(const ReshardStep& step) const;
  Value put_together(const Value& value, const std::vector<std::string>& axes, Partial::Combine combine);
  Value constant(std::int64_t value, DType dtype);

  Builder& builder_;
  const Grid& grid_;
  std::map<std::pair<std::int64_t, DType>, Value> constants_;
  std::map<Axes, Value> places_;
  std::map<std::tuple<Axes, std::int64_t, DType>, Value> starts_;
};

}  // namespace lockstep::sharding
