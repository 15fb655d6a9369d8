// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/program/axis_env.h"
#include "lockstep/program/program.h"
#include "lockstep/sharding/limits.h"

namespace lockstep::sharding {

struct OverlapOptions {
  /// Smaller collectives are not started early: handing one over takes as long as a small one. 0: none are.
  std::int64_t threshold_bytes = kOverlapThresholdBytes;

  /// A collective for each of whose bytes fewer operations are computed meanwhile is not started early.
  double operations_per_byte = 1;

  /// Operands and results of the collectives that are in flight at one time have at most this many bytes in
  /// total, or belong to one collective.
  std::int64_t in_flight_bytes = kInFlightBytes;
};

/// Lets large collectives of a device's program, and of the programs in its equations, run beside
/// computations that do not need their results: what needs one moves behind what does not, and a
/// collective_done before it. A collective stays as it is if nothing, or too little, is computed meanwhile.
/// So does a program that calls functions of the host: if one of these fails, XLA frees the memory of the
/// collectives in flight.
ir::Program overlap_collectives(ir::Program program, const ir::AxisEnv& axes, const OverlapOptions& options);

}  // namespace lockstep::sharding
