// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/program/axis_env.h"
#include "lockstep/program/program.h"
#include "lockstep/sharding/limits.h"
#include "lockstep/sharding/partition_spec.h"

namespace lockstep::sharding {

struct PartitionOptions {
  /// The mesh's axes.
  ir::AxisEnv axes;

  /// The sharding of each input.
  std::vector<PartitionSpec> in_specs;

  /// The required sharding of each output; if not set, the partitioner chooses.
  std::vector<std::optional<PartitionSpec>> out_specs;

  /// A value that a loop uses and does not change is resharded for its steps once before the loop, if all
  /// such values together take at most this many bytes on a device.
  std::int64_t gathered_for_loops_bytes = kGatheredForLoopsBytes;

  /// The limit, on a device, for gathered values that are kept for later uses; beyond it they are gathered
  /// again (gather_again.h).
  std::int64_t kept_gathered_bytes = kKeptGatheredBytes;

  /// If a device would need more than this for the program (peak_bytes), kept_gathered_bytes is lowered, and
  /// finally nothing is gathered before loops. 0: no limit.
  std::int64_t memory_limit_bytes = 0;
};

struct Partitioned {
  /// The computation of each device on its parts, with the collectives as equations. Those that the
  /// partitioner added have their reasons.
  ir::Program program;

  /// The sharding of each output: as required, or as the partitioner chose.
  std::vector<PartitionSpec> out_specs = {};

  /// The limit for kept gathered values that was used: the given one, or less because memory is short.
  std::int64_t kept_gathered_bytes = kKeptGatheredBytes;

  /// Warnings about large values that every device computes as a whole although their operands are split:
  /// what, where and why.
  std::vector<std::string> warnings = {};
};

/// Converts a program over global arrays to the program of each device. First every variable gets a split,
/// derived from those of inputs and outputs through the primitives' sharding rules (propagation.h). Then each
/// equation is written for the devices' parts: its operands are resharded as it needs them (reshard.h), and
/// partial results are reduced. Needs no devices. Throws ShardingError if a spec does not match its input or
/// output, or the axes.
Partitioned partition(const ir::Program& global, const PartitionOptions& options);

}  // namespace lockstep::sharding
