#pragma once

#include <chrono>
#include <cstddef>

// What a process takes from others over its own sockets, before it knows them and after. docs/transport.md
// tells it.

namespace lockstep::collectives {

/// No text of a message is longer, in bytes.
inline constexpr std::size_t kMaxText = 32 << 10;

/// No frame over TCP is longer, in bytes, before both sides have proved who they are.
inline constexpr std::size_t kMaxGreeting = 256;

// Whoever has connected over TCP and not proved yet that he is of the job is a stranger.

/// So many strangers have a connection at once. Others wait in the kernel's queue.
inline constexpr std::size_t kMostStrangers = 128;

/// Where there are so many, the one who came first goes once he has had this time, if another one waits.
inline constexpr std::chrono::milliseconds kLeastTimeToProve(200);

/// And each goes after this time.
inline constexpr std::chrono::milliseconds kMostTimeToProve(10'000);

/// So many are let in at a time, before those who are there are heard again.
inline constexpr int kAcceptedAtOnce = 16;

/// A process whose call is ended before both have proved themselves calls again, for so long: others may have
/// pushed it out.
inline constexpr std::chrono::milliseconds kCallsAgain(30'000);

static_assert(kMostTimeToProve > 10 * kLeastTimeToProve, "strangers are pushed out in a flood only");
static_assert(kCallsAgain > 2 * kMostTimeToProve, "who is pushed out comes in when the strangers have gone");

}  // namespace lockstep::collectives
