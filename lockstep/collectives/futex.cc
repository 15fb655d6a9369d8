// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/futex.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace lockstep::collectives {

static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && std::atomic<std::uint32_t>::is_always_lock_free);

void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                std::chrono::nanoseconds timeout) {
  timespec limit{static_cast<time_t>(timeout.count() / 1000000000),
                 static_cast<long>(timeout.count() % 1000000000)};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}

void futex_wake_all(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::uint32_t current_cpu() { return static_cast<std::uint32_t>(sched_getcpu()); }

}  // namespace lockstep::collectives
