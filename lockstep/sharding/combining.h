// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/program/axis_env.h"
#include "lockstep/program/program.h"
#include "lockstep/sharding/limits.h"

namespace lockstep::sharding {

struct CombineOptions {
  std::int64_t threshold_bytes = kCombineThresholdBytes;

  /// A combined all-gather is done earlier than its first use. The results of those that exist at the same
  /// time have at most this many bytes in total.
  std::int64_t gathered_bytes = kKeptGatheredBytes;
};

/// Combines similar collectives of a device's program, and of the programs in its equations, if they use the
/// same axes and do not need each other's results: their data is concatenated and exchanged by one collective
/// of at most `threshold_bytes` on a device. All-gathers may have different dtypes of the same size.
/// Equations that need their results move behind the combined collective. Larger all-gathers, and those that
/// were added by gather_again.h, stay behind these equations.
ir::Program combine_collectives(ir::Program program, const ir::AxisEnv& axes, const CombineOptions& options);

}  // namespace lockstep::sharding
