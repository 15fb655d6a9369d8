#pragma once

#include <cstdint>

#include "lockstep/program/axis_env.h"
#include "lockstep/program/program.h"
#include "lockstep/sharding/communication.h"
#include "lockstep/sharding/limits.h"

namespace lockstep::sharding {

struct CombineOptions {
  std::int64_t threshold_bytes = kCombineThresholdBytes;

  /// All-gathers that are combined are done before their turn: those that are so at a time give at most so
  /// much.
  std::int64_t gathered_bytes = kKeptGatheredBytes;
};

/// Combines collectives of a device's program, and of those that it holds, that are alike, go over the same
/// axes and do not need each other's results: what they exchange is put one behind the other and goes in one,
/// of at most `threshold_bytes` on a device. All-gathers may be of different dtypes of one size. What needs
/// their results waits until the combined one is done. All-gathers that are larger, and what is gathered
/// again (gather_again.h), stay behind what waits.
Program combine_collectives(const Program& program, const AxisEnv& axes, const CombineOptions& options,
                            CommunicationReasons& reasons);

}  // namespace lockstep::sharding
