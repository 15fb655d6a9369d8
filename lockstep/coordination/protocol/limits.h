// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>

namespace lockstep::coordination {

/// Limits for clients that reach a coordinator's port, before they have identified themselves. Far above what
/// a job needs. Described in docs/coordination.md.
struct Limits {
  /// Larger messages are rejected with RESOURCE_EXHAUSTED.
  int largest_message = 256 << 20;

  /// If all messages together are larger, they wait.
  std::size_t largest_sum = std::size_t{2} << 30;

  /// Concurrent calls of one connection, and how many more for each process of the job: a client has a few
  /// for itself, and JAX's keep a get open for each other process. With more the connection is closed.
  int calls = 1024, calls_per_process = 16;

  // A client that has connected is a stranger until it has proved that it belongs to the job. Where that is
  // not asked for, or is by TLS, it is one until one of its calls was accepted.

  /// The most connections of strangers at a time, but never more than an eighth of this process's descriptor
  /// limit. Others wait in the kernel's queue.
  std::size_t most_strangers = 256;

  /// A stranger that has sent more is closed, and its first request may not have more once it is expanded.
  std::size_t strangers_bytes = 64 << 10;

  /// If there are this many and another one waits, the oldest is closed after this time.
  std::chrono::milliseconds least_time{500};

  /// The same for one that has not said anything: a process of the job speaks at once.
  std::chrono::milliseconds least_silence{20};

  /// Each stranger is closed after this time. An idle connection of the job is closed after this time
  /// too.
  std::chrono::milliseconds silence = std::chrono::seconds(20);
};

}  // namespace lockstep::coordination
