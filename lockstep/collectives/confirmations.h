// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

#include "lockstep/watch/layout.h"

namespace lockstep::collectives {

/// Whether the other host confirms what is sent over a TCP connection, as far as calls of `unanswered` have
/// seen.
class Confirmations {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// Since when the other host has confirmed none of the bytes that it has not confirmed; the epoch: there
  /// are no such bytes. Asks the kernel.
  TimePoint unanswered(int socket, TimePoint now);

 private:
  std::uint64_t confirmed_ = 0;
  TimePoint unanswered_{};
};

/// The recorder's note of a connection to another process, for the lifetime of this object.
class NotedLink {
 public:
  explicit NotedLink(int process) : process_(process) {}
  ~NotedLink();
  NotedLink(const NotedLink&) = delete;
  NotedLink& operator=(const NotedLink&) = delete;

  void note(Confirmations::TimePoint unanswered);

 private:
  const int process_;
  watch::Link* link_ = nullptr;
};

}  // namespace lockstep::collectives
