// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/program/program.h"

namespace lockstep::sharding {

/// Two uses that are at most this many equations apart are close: dropping a value between them saves
/// nothing.
inline constexpr std::size_t kSoonEquations = 16;

/// Limits the memory of a device for values that the partitioner gathered and that are kept for later uses to
/// `kept_bytes` at any time, in the program and in the programs of its equations. Beyond that, values are
/// dropped after a use and gathered again for the next one, first those that would be kept longest, such as
/// the parameters of the first layers, which the backward pass needs last. Reshapes, transposes and
/// conversions after the gather are repeated, too. The reasons of repeated gathers say so.
///
/// This is rematerialization (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"), restricted
/// to gathers, with the choice of Belady's page replacement: values whose next use is farthest are dropped
/// first.
ir::Program gather_again(ir::Program program, std::int64_t kept_bytes, std::size_t soon = kSoonEquations);

/// The total bytes of all results of all-gathers in the program and in the programs of its equations.
std::int64_t gathered_bytes(const ir::Program& program);

}  // namespace lockstep::sharding
