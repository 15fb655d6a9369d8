// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

namespace lockstep::checkpoint {

/// More threads do not read faster from a disk; from an object store each splits its reads anyway.
inline constexpr std::size_t kTasksAtATime = 4;

/// Runs the tasks 0 to count - 1 on some threads, this one among them; throws the first error when all have
/// ended.
void run_all(std::size_t count, const std::function<void(std::size_t)>& task);

}  // namespace lockstep::checkpoint
