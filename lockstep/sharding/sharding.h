#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/fingerprint.h"
#include "lockstep/program/aval.h"
#include "lockstep/sharding/device.h"
#include "lockstep/sharding/mesh.h"
#include "lockstep/sharding/partition_spec.h"

namespace lockstep {

/// The part of one dimension that a device holds: elements start to limit - 1.
struct IndexRange {
  std::int64_t start = 0;
  std::int64_t limit = 0;
  bool operator==(const IndexRange&) const = default;
};

/// Throws ShardingError, with `what` ("make_array_from_process_local_data") in front, where the spec has an
/// axis that the mesh has not, or one axis twice.
void check_spec(const PartitionSpec& spec, const Mesh& mesh, std::string_view what);

/// As check_spec, and where the spec has more entries than `aval` has dimensions, or mesh axes do not divide
/// a dimension: the message gives the dimension, the axis, the remainder and the nearest sizes that fit.
void check_divisible(const Aval& aval, const PartitionSpec& spec, const Mesh& mesh, std::string_view what);

/// Where the parts of an array lie: devices, and what part each holds. A handle, cheap to copy and to
/// compare: equal shardings share one state, made once for the process and kept. NamedSharding and
/// SingleDeviceSharding make them, and may be passed wherever a Sharding is asked for.
class Sharding {
 public:
  /// In mesh order: the order of positions, of shards and of indices.
  const std::vector<Device>& devices() const;

  /// The mesh; of a single device, one with no axes.
  const Mesh& mesh() const;

  /// Normalized: entries of no axes at the end are dropped. P() of a single device.
  const PartitionSpec& spec() const;

  bool is_single_device() const;

  /// The shape of each device's part. Throws ShardingError as check_divisible.
  Shape shard_shape(const Shape& global_shape) const;

  /// For each device, in order, what it holds: a range for each dimension. Throws ShardingError as
  /// check_divisible.
  std::vector<std::vector<IndexRange>> device_indices(const Shape& global_shape) const;

  /// The same by device.
  std::map<Device, std::vector<IndexRange>> devices_indices_map(const Shape& global_shape) const;

  /// Those of the devices that are the process's, as indices in devices(), rising.
  const std::vector<int>& addressable_positions(int process_index) const;

  /// Whether each device holds the whole array.
  bool is_fully_replicated() const;

  /// Whether all devices are the process's.
  bool is_fully_addressable(int process_index) const;

  /// Whether arrays of this many dimensions lie the same way under both: the same devices in the same order,
  /// each with the same part.
  bool is_equivalent_to(const Sharding& other, std::int64_t rank) const;

  /// Of mesh and spec; the same on every process.
  Fingerprint fingerprint() const;

  /// "NamedSharding(Mesh(data=4), P('data'))", "SingleDeviceSharding(CpuDevice(id=0))".
  std::string to_string() const;

  /// Same kind, mesh and spec. A comparison of two pointers.
  bool operator==(const Sharding& other) const { return state_ == other.state_; }

  /// The same for equal shardings, while the process lives: a key.
  const void* identity() const { return state_; }

 protected:
  struct State;
  explicit Sharding(const State* state) : state_(state) {}
  static const State* intern(Mesh mesh, PartitionSpec spec, bool single);

 private:
  const State* state_;
};

/// An array split over a mesh as a spec says.
class NamedSharding : public Sharding {
 public:
  /// Throws ShardingError as check_spec.
  NamedSharding(const Mesh& mesh, const PartitionSpec& spec,
                std::source_location where = std::source_location::current());
};

/// An array wholly on one device.
class SingleDeviceSharding : public Sharding {
 public:
  explicit SingleDeviceSharding(Device device);
};

/// Devices in a grid as large as the array's dimensions are cut: dimension d into shape()[d] parts. A thin
/// form of a NamedSharding over a mesh with an axis for each dimension of the grid, named "0", "1" and so on.
class PositionalSharding : public Sharding {
 public:
  /// A grid of one dimension.
  explicit PositionalSharding(const std::vector<Device>& devices);

  /// The same devices in another grid. Throws ShardingError where the sizes do not multiply to their number.
  PositionalSharding reshape(const Shape& shape) const;

  /// Without the cut of this dimension (of all, if none is given): the devices along it hold the same.
  PositionalSharding replicate(std::int64_t dimension) const;
  PositionalSharding replicate() const;

  /// Into how many parts each dimension is cut.
  Shape shape() const;

 private:
  PositionalSharding(const Mesh& mesh, const PartitionSpec& spec);
};

inline std::string to_string(const Sharding& sharding) { return sharding.to_string(); }

}  // namespace lockstep

template <>
struct std::hash<lockstep::Sharding> {
  std::size_t operator()(const lockstep::Sharding& sharding) const noexcept {
    return std::hash<const void*>{}(sharding.identity());
  }
};
