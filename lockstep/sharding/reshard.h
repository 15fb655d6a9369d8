#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/program/program.h"
#include "lockstep/sharding/split.h"

namespace lockstep::sharding {

/// One step from one split of a value to another.
struct ReshardStep {
  enum class Kind : std::uint8_t {
    kSlice,     ///< each device keeps its part of `dimension`: free
    kAllToAll,  ///< the axes move from `from_dimension` to `dimension`
    kAllGather  ///< `dimension` is put together over the axes
  } kind;
  Axes axes;
  std::size_t dimension;
  std::size_t from_dimension = 0;  ///< of kAllToAll

  /// The split after the step.
  Split apply(Split split) const;
};

/// The steps from one split to another: slices as soon as they can be, then moves, and what is left is
/// gathered, so that few bytes travel.
std::vector<ReshardStep> plan_reshard(const Split& from, const Split& to);

/// The bytes that a device receives in the steps. `global` is the value's.
double received_bytes(const std::vector<ReshardStep>& steps, const Aval& global, const Split& from,
                      const Grid& grid);

/// What the steps cost: these bytes, and some for each collective.
double cost(const std::vector<ReshardStep>& steps, const Aval& global, const Split& from, const Grid& grid);

/// The cost of all-reducing (reduce-scattering) a value of so many bytes on each device over so many devices.
double all_reduce_cost(double bytes, std::int64_t devices);
double reduce_scatter_cost(double bytes, std::int64_t devices);

/// Writes the steps' equations. What depends on the device's place only is written once.
class Resharder {
 public:
  Resharder(Builder& builder, const Grid& grid) : builder_(builder), grid_(grid) {}

  /// Consecutive slices become one. AxisEnv::current() must be the grid's.
  Value slice(const Value& value, const std::vector<ReshardStep>& slices);

  /// An all-to-all or an all-gather.
  Value exchange(const Value& value, const ReshardStep& step);

 private:
  Value constant(std::int64_t value, DType dtype);
  Value start(const Axes& axes, std::int64_t part_size, DType dtype);

  Builder& builder_;
  const Grid& grid_;
  std::map<std::pair<std::int64_t, DType>, Value> constants_;
  std::map<Axes, Value> places_;
  std::map<std::tuple<Axes, std::int64_t, DType>, Value> starts_;
};

}  // namespace lockstep::sharding
