// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/fingerprint.h"
#include "lockstep/base/function.h"
#include "lockstep/program/aval.h"
#include "lockstep/sharding/device.h"
#include "lockstep/sharding/mesh.h"
#include "lockstep/sharding/partition_spec.h"

namespace lockstep {

/// The range of one dimension that a device holds: elements start to limit - 1.
struct IndexRange {
  std::int64_t start = 0;
  std::int64_t limit = 0;
  bool operator==(const IndexRange&) const = default;
};

namespace sharding {

/// Throws ShardingError, prefixed with `what` ("make_array_from_process_local_data"), if the spec has an axis
/// that the mesh does not have, or one axis twice.
void check_spec(const PartitionSpec& spec, const Mesh& mesh, std::string_view what);

/// As check_spec. Also throws if the spec has more entries than `aval` has dimensions, or if mesh axes do not
/// divide a dimension; then the message has the dimension, the axis, the remainder and the nearest sizes that
/// fit.
void check_divisible(const Aval& aval, const PartitionSpec& spec, const Mesh& mesh, std::string_view what);

}  // namespace sharding

/// The placement of an array: devices, and the part that each device holds. A handle, cheap to copy and to
/// compare: equal shardings share one state, which is made once for the process and kept. Made by
/// NamedSharding and SingleDeviceSharding, which can be passed wherever a Sharding is expected.
class Sharding {
 public:
  /// In mesh order, which is also the order of positions, shards and indices.
  const std::vector<Device>& devices() const;

  /// The mesh; for a single device, one without axes.
  const Mesh& mesh() const;

  /// Normalized: empty entries at the end are dropped. P() for a single device.
  const PartitionSpec& spec() const;

  bool is_single_device() const;

  /// The shape of each device's part. Throws ShardingError as check_divisible does.
  Shape shard_shape(const Shape& global_shape) const;

  /// For each device, in order, the part that it holds: a range for each dimension. Throws ShardingError as
  /// check_divisible does.
  std::vector<std::vector<IndexRange>> device_indices(const Shape& global_shape) const;

  /// device_indices by device.
  std::map<Device, std::vector<IndexRange>> devices_indices_map(const Shape& global_shape) const;

  /// The indices in devices() of the process's own devices, ascending.
  const std::vector<int>& addressable_positions(int process_index) const;

  /// Whether each device holds the whole array.
  bool is_fully_replicated() const;

  /// Whether all devices belong to the process.
  bool is_fully_addressable(int process_index) const;

  /// Whether arrays with this number of dimensions have the same placement under both: the same devices in
  /// the same order, each with the same part.
  bool is_equivalent_to(const Sharding& other, std::int64_t rank) const;

  /// A fingerprint of the mesh and the spec; the same on every process.
  Fingerprint fingerprint() const;

  /// "NamedSharding(Mesh(data=4), P('data'))", "SingleDeviceSharding(CpuDevice(id=0))".
  std::string to_string() const;

  /// Equal if kind, mesh and spec are equal. Compares two pointers.
  bool operator==(const Sharding& other) const { return state_ == other.state_; }

  /// A key: the same pointer for equal shardings, as long as the process lives.
  const void* identity() const { return state_; }

 protected:
  struct State;
  explicit Sharding(const State* state) : state_(state) {}
  static const State* intern(Mesh mesh, PartitionSpec spec, bool single);

 private:
  const State* state_;
};

/// An array split over a mesh according to a spec.
class NamedSharding : public Sharding {
 public:
  /// Throws ShardingError as check_spec does.
  NamedSharding(const Mesh& mesh, const PartitionSpec& spec,
                std::source_location where = std::source_location::current());
};

/// An array on one device.
class SingleDeviceSharding : public Sharding {
 public:
  explicit SingleDeviceSharding(Device device);
};

/// A grid of devices that splits an array evenly: dimension d into shape()[d] parts. Implemented as a
/// NamedSharding over a mesh with an axis for each dimension of the grid, named "0", "1" and so on.
class PositionalSharding : public Sharding {
 public:
  /// A grid of one dimension.
  explicit PositionalSharding(const std::vector<Device>& devices);

  /// The same devices in another grid. Throws ShardingError unless the product of the sizes is their number.
  PositionalSharding reshape(const Shape& shape) const;

  /// Does not split this dimension (or any dimension, if none is given): the devices along it hold the same
  /// part.
  PositionalSharding replicate(std::int64_t dimension) const;
  PositionalSharding replicate() const;

  /// The number of parts of each dimension.
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
