#pragma once

#include <cstdint>

/// What users' options are where they say nothing.
namespace lockstep::sharding {

/// Above this a collective gains little by being combined with others: what it takes is to move its bytes.
inline constexpr std::int64_t kCombineThresholdBytes = 1 << 20;

/// What loops may hold of what is gathered before them. Parameters of a large model are not gathered all at
/// once only because a loop over microbatches uses them.
inline constexpr std::int64_t kGatheredForLoopsBytes = 64 << 20;

/// What gathered values that are kept for later uses may hold. Parameters of a large model are not all there
/// at once only because the backward pass needs them again.
inline constexpr std::int64_t kKeptGatheredBytes = 256 << 20;

}  // namespace lockstep::sharding
