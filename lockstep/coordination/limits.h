#pragma once

#include <chrono>
#include <cstddef>

namespace lockstep::coordination {

/// What a coordinator takes from those who reach its port: all of it before it is known who they are. Far
/// above what a job needs. docs/coordination.md tells it.
struct Limits {
  /// A larger message is refused with RESOURCE_EXHAUSTED.
  int largest_message = 256 << 20;

  /// When all messages together are more, they wait.
  std::size_t largest_sum = std::size_t{2} << 30;

  /// Calls of one connection at once, and so many more for each process of the job: a client has a handful
  /// for itself, and JAX's leave a get open for each of the others. Who makes more loses the connection.
  int calls = 1024, calls_per_process = 16;

  // A client that has connected is a stranger until one of its calls was accepted.

  /// So many strangers have a connection at once, and never more than an eighth of the descriptors that this
  /// process may have. Others wait in the kernel's queue.
  std::size_t most_strangers = 256;

  /// If there are this many and another one waits, the oldest is closed after this time.
  std::chrono::milliseconds least_time{500};

  /// And each goes after this time. A connection of the job on which nothing happens for so long is closed
  /// too.
  std::chrono::milliseconds silence = std::chrono::seconds(20);
};

}  // namespace lockstep::coordination
