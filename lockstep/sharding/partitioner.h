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

  /// Where a device would need more for the program (peak_bytes), what is gathered is gathered again for
  /// later uses, not kept for them. 0: there is no limit.
  std::int64_t memory_limit_bytes = 0;
};

struct Partitioned {
  /// What each device does, on its parts, with the collectives as equations.
  Program program;

  /// How each output comes: as asked for, or as it came out.
  std::vector<PartitionSpec> out_specs = {};

  /// Of the collectives that are not the program's own.
  CommunicationReasons reasons = {};

  /// Whether what is gathered is gathered again for later uses, because memory is short: collectives are not
  /// to be combined then.
  bool gathers_again = false;

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
