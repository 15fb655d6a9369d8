#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/program/axis_env.h"
#include "lockstep/program/program.h"
#include "lockstep/sharding/communication.h"
#include "lockstep/sharding/limits.h"
#include "lockstep/sharding/partition_spec.h"

namespace lockstep::sharding {

struct PartitionOptions {
  /// The mesh's axes.
  AxisEnv axes;

  /// How each input comes.
  std::vector<PartitionSpec> in_specs;

  /// How each output shall be; where not given, as it comes out of the computation.
  std::vector<std::optional<PartitionSpec>> out_specs;

  /// What a loop uses and does not change is brought to where each step needs it before the loop, as far as
  /// that takes no more bytes on a device.
  std::int64_t gathered_for_loops_bytes = kGatheredForLoopsBytes;

  /// What gathered values that are kept for later uses may hold of a device; beyond it they are gathered
  /// again (gather_again.h).
  std::int64_t kept_gathered_bytes = kKeptGatheredBytes;

  /// Where a device would need more for the program (peak_bytes), less is kept of what is gathered, and at
  /// last nothing is gathered before loops. 0: there is no limit.
  std::int64_t memory_limit_bytes = 0;
};

struct Partitioned {
  /// What each device does, on its parts, with the collectives as equations.
  Program program;

  /// How each output comes: as asked for, or as it came out.
  std::vector<PartitionSpec> out_specs = {};

  /// Of the collectives that are not the program's own.
  CommunicationReasons reasons = {};

  /// What gathered values may hold for later uses: what was asked for, or less, because memory is short.
  std::int64_t kept_gathered_bytes = kKeptGatheredBytes;

  /// Large values that every device computes whole though what they are made of is split: what, where and
  /// why.
  std::vector<std::string> warnings = {};
};

/// Makes of a program over global arrays the program of each device. First every variable gets a split, from
/// those of the inputs and outputs along the primitives' sharding rules (propagation.h); then each equation
/// is written on the devices' parts, its operands brought where it wants them (reshard.h) and partial results
/// put together. Needs no devices. Throws ShardingError where a spec does not fit its input or output, or the
/// axes.
Partitioned partition(const Program& global, const PartitionOptions& options);

}  // namespace lockstep::sharding
