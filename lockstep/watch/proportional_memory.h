// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "lockstep/base/clock.h"

namespace lockstep::watch {

/// The proportional set size (PSS) of the process with this pid, from /proc/PID/smaps_rollup: its resident
/// pages, each divided by the number of processes that map it. nullopt if the kernel does not report it,
/// which it does since Linux 4.14 for processes that this one may trace. The kernel walks all pages of the
/// process for it: some tens of milliseconds for each GiB of small pages.
std::optional<std::uint64_t> read_proportional_bytes(int pid);

/// The memory of one process, in which pages that it shares are counted in part, so that the sum over the
/// processes of a host is what they use together. Each process maps the blocks that the others share with it
/// (lockstep/collectives/arena.h), so resident memory would count them once for each.
class ProportionalMemory {
 public:
  using Read = std::function<std::optional<std::uint64_t>(int pid)>;

  explicit ProportionalMemory(Read read = read_proportional_bytes,
                              const lockstep::Clock& clock = lockstep::Clock::steady())
      : read_(std::move(read)), clock_(clock) {}

  /// The bytes of the process with this pid now, whose resident memory is `resident`. Reads the PSS only so
  /// often that this takes a hundredth of the time; in between, what the process had in common with others is
  /// subtracted from `resident`. Returns `resident` if the PSS is not known.
  std::uint64_t look(int pid, std::uint64_t resident);

 private:
  Read read_;
  const lockstep::Clock& clock_;
  int pid_ = 0;                  ///< of the last look
  std::uint64_t of_others_ = 0;  ///< resident memory less the PSS, when it was read
  lockstep::Clock::TimePoint next_{};
};

}  // namespace lockstep::watch
