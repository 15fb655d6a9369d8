// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// The defaults of users' options.
namespace lockstep::sharding {

/// A collective larger than this gains little from being combined with others, because its time is that of
/// moving its bytes.
inline constexpr std::int64_t kCombineThresholdBytes = 1 << 20;

/// Handing a collective over to a thread of its own takes tens of microseconds, as long as one of some
/// hundred kilobytes.
inline constexpr std::int64_t kOverlapThresholdBytes = 1 << 20;

/// The limit for collectives that run at one time beside a program. Without it, all parameters of a large
/// model would be gathered at once, each while another one is.
inline constexpr std::int64_t kInFlightBytes = 64 << 20;

/// The limit for values that are gathered before a loop. Without it, all parameters of a large model would be
/// gathered at once because a loop over microbatches uses them.
inline constexpr std::int64_t kGatheredForLoopsBytes = 64 << 20;

/// The limit for gathered values that are kept for later uses. Without it, all parameters of a large model
/// would be in memory at once because the backward pass needs them again.
inline constexpr std::int64_t kKeptGatheredBytes = 256 << 20;

}  // namespace lockstep::sharding
