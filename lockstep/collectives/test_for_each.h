// SPDX-License-Identifier: Apache-2.0
#pragma once

// For tests: ways to run pieces of work, in place of XLA's threads (ForEach,
// lockstep/collectives/ffi_call.h).

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace lockstep::test {

inline void in_turn(std::int64_t count, const std::function<void(std::int64_t)>& piece) {
  for (std::int64_t i = 0; i < count; ++i) piece(i);
}

/// The last piece first, each on a thread of its own.
inline void on_threads(std::int64_t count, const std::function<void(std::int64_t)>& piece) {
  std::vector<std::jthread> threads;
  for (std::int64_t i = count; i-- > 0;) threads.emplace_back(piece, i);
}

}  // namespace lockstep::test
