#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/program/program.h"
#include "lockstep/sharding/communication.h"

namespace lockstep::sharding {

/// Uses that are so many equations apart are near each other: between them nothing is gained by dropping.
inline constexpr std::size_t kSoonEquations = 16;

/// Of a device's program, and of those that it holds: what the partitioner gathered (all-gathers with a
/// reason) and keeps for later uses takes at most `kept_bytes` at any time. Beyond it values are dropped
/// after a use and gathered again for the next one, those first that would be kept longest, such as the
/// parameters of the first layers, which the backward pass needs last. Each step of a value's way from its
/// parts counts as gathered: reshapes, transposes and conversions of what was gathered are done again, too.
/// The reasons of what is gathered again say so.
///
/// This is rematerialization (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost") of gathers
/// only, with the choice of Belady's page replacement: what is needed last goes first.
Program gather_again(Program program, std::int64_t kept_bytes, CommunicationReasons& reasons,
                     std::size_t soon = kSoonEquations);

/// Of all results of all-gathers in the program and those that it holds together.
std::int64_t gathered_bytes(const Program& program);

}  // namespace lockstep::sharding
