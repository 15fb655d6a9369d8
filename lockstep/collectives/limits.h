// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>

#include "lockstep/base/options.h"

// Limits for what a process accepts from others over its own sockets, before and after they are known.
// docs/transport.md describes them.

namespace lockstep::collectives {

/// The maximal length of a message's text, in bytes.
inline constexpr std::size_t kMaxText = 32 << 10;

/// The maximal number of data connections to a device of another host, and so of the parts of a message.
inline constexpr int kMostConnections = options::kDataConnections.most;

/// The maximal length of a TCP frame, in bytes, before both sides have proved their identity.
inline constexpr std::size_t kMaxGreeting = 256;

// A stranger is a client that has connected over TCP and has not proved yet that it belongs to the job.

/// The maximal number of strangers with a connection. Others wait in the kernel's queue.
inline constexpr std::size_t kMostStrangers = 128;

/// If there are that many and another one waits, the oldest is disconnected after this time.
inline constexpr std::chrono::milliseconds kLeastTimeToProve(200);

/// Each stranger is disconnected after this time.
inline constexpr std::chrono::milliseconds kMostTimeToProve(10'000);

/// The maximal number of new connections that are accepted before the existing ones are read again.
inline constexpr int kAcceptedAtOnce = 16;

/// If a connection is closed before both sides have proved their identity, the process connects again during
/// this time, because strangers may have displaced it.
inline constexpr std::chrono::milliseconds kCallsAgain(30'000);

/// When the other side has ended one of its connections, the others are read for this time, because what it
/// sent before may still arrive over them.
inline constexpr std::chrono::milliseconds kLastData(2'000);

static_assert(kMostTimeToProve > 10 * kLeastTimeToProve, "strangers are pushed out in a flood only");
static_assert(kCallsAgain > 2 * kMostTimeToProve, "who is pushed out comes in when the strangers have gone");

}  // namespace lockstep::collectives
