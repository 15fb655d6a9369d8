// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace lockstep::collectives {

/// Sleeps while `word` holds `value`, at most for `timeout`; may return early. `word` may be shared between
/// processes.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                std::chrono::nanoseconds timeout);

/// Wakes all threads that sleep on `word`, in every process.
void futex_wake_all(std::atomic<std::uint32_t>& word);

/// The CPU on which this thread is running.
std::uint32_t current_cpu();

/// A short pause of the core, for waiting loops.
inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

/// Takes the line of this address away from other cores, in the background: to be written soon.
inline void own_line(void* address) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<char*>(address)));  // the builtin asks for one to read
#else
  __builtin_prefetch(address, 1);
#endif
}

}  // namespace lockstep::collectives
