#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/fingerprint.h"
#include "lockstep/program/aval.h"
#include "lockstep/sharding/device.h"
#include "lockstep/sharding/mesh.h"
#include "lockstep/sharding/partition_spec.h"

namespace lockstep {

/// The elements [start, limit) of one dimension.
struct IndexRange {
  std::int64_t start = 0;
  std::int64_t limit = 0;
  bool operator==(const IndexRange&) const = default;
};

/// How an array is spread over devices: a mesh and a spec, or one device. An immutable value, cheap to copy.
class Sharding {
 public:
  /// Over a mesh. Throws ShardingError for an axis that the mesh does not have, and one that is used twice.
  Sharding(Mesh mesh, PartitionSpec spec);

  /// Whole, on one device.
  explicit Sharding(Device device);

  /// Whether it is over a mesh by name. A single device counts as a mesh of one without named axes.
  bool is_named() const { return state_->named; }
  const Mesh& mesh() const { return state_->mesh; }
  const PartitionSpec& spec() const { return state_->spec; }
  const std::vector<Device>& devices() const { return state_->mesh.devices(); }

  /// The shape of each device's part. Throws ShardingError as check_divisible does.
  Shape shard_shape(const Shape& global_shape) const;

  /// What the device at a position of the mesh holds, for each dimension.
  std::vector<IndexRange> indices(const Shape& global_shape, int position) const;

  /// Which of the positions that hold the same part this one is, from 0.
  int replica_id(int position) const;

  bool is_fully_replicated() const;

  /// Whether all devices belong to the process.
  bool is_fully_addressable(int process_index) const;

  Fingerprint fingerprint() const { return state_->fingerprint; }
  bool operator==(const Sharding& other) const;

  /// "NamedSharding(Mesh(data=4), P('data'))".
  std::string to_string() const;

 private:
  struct State {
    bool named;
    Mesh mesh;
    PartitionSpec spec;
    Fingerprint fingerprint;
  };
  std::shared_ptr<const State> state_;
};

/// A sharding over a mesh: NamedSharding(mesh, P("data")).
class NamedSharding : public Sharding {
 public:
  NamedSharding(Mesh mesh, PartitionSpec spec) : Sharding(std::move(mesh), std::move(spec)) {}
};

/// The whole array on one device.
class SingleDeviceSharding : public Sharding {
 public:
  explicit SingleDeviceSharding(Device device) : Sharding(device) {}
};

/// Throws ShardingError where the spec does not fit an array of the shape: more entries than dimensions, or a
/// dimension that the axes do not divide (saying the remainder and the nearest sizes that fit). `what` begins
/// the message.
void check_divisible(const Shape& shape, const PartitionSpec& spec, const AxisEnv& axes,
                     std::string_view what);

}  // namespace lockstep
