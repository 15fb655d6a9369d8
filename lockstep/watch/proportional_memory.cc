// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/proportional_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

#include <fmt/format.h>

namespace lockstep::watch {
namespace {

constexpr int kShareOfTime = 100;

}  // namespace

std::optional<std::uint64_t> read_proportional_bytes(int pid) {
  std::ifstream rollup(fmt::format("/proc/{}/smaps_rollup", pid));
  for (std::string word; rollup >> word;) {
    std::uint64_t kibibytes = 0;
    if (word == "Pss:" && rollup >> kibibytes) return kibibytes << 10;
  }
  return std::nullopt;
}

std::uint64_t ProportionalMemory::look(int pid, std::uint64_t resident) {
  const lockstep::Clock::TimePoint begin = clock_.now();
  if (pid != pid_ || begin >= next_) {
    pid_ = pid;
    const std::optional<std::uint64_t> bytes = read_(pid);
    of_others_ = bytes ? resident - std::min(resident, *bytes) : 0;
    const lockstep::Clock::TimePoint end = clock_.now();
    next_ = end + kShareOfTime * (end - begin);
  }
  return resident - std::min(resident, of_others_);
}

}  // namespace lockstep::watch
