// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/kept.h"

#include "lockstep/base/options.h"

namespace lockstep {
namespace {

std::atomic<std::size_t> most_kept = options::kMaxCompiledPrograms.otherwise;

}  // namespace

void set_max_kept(std::size_t most) {
  most_kept.store(std::max<std::size_t>(most, 1), std::memory_order_relaxed);
}

std::size_t max_kept() { return most_kept.load(std::memory_order_relaxed); }

std::atomic<std::uint64_t>& Kept::clock() {
  static std::atomic<std::uint64_t> adds = 0;
  return adds;
}

}  // namespace lockstep
