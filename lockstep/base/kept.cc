// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/kept.h"

#include <vector>

#include "lockstep/base/options.h"

namespace lockstep {
namespace {

/// The caches of the process.
struct Caches {
  std::mutex mutex;
  std::vector<KeptCache*> all;

  static Caches& get() {
    static auto& caches = *new Caches;  // outlives those that are static
    return caches;
  }
};

std::atomic<std::size_t> most_kept = options::kMaxCompiledPrograms.otherwise;

}  // namespace

void set_max_kept(std::size_t most) {
  most_kept.store(std::max<std::size_t>(most, 1), std::memory_order_relaxed);
}

std::size_t max_kept() { return most_kept.load(std::memory_order_relaxed); }

void clear_all_kept() {
  Caches& caches = Caches::get();
  std::lock_guard lock(caches.mutex);
  for (KeptCache* cache : caches.all) cache->clear();
}

KeptCache::KeptCache() {
  Caches& caches = Caches::get();
  std::lock_guard lock(caches.mutex);
  caches.all.push_back(this);
}

KeptCache::~KeptCache() {
  Caches& caches = Caches::get();
  std::lock_guard lock(caches.mutex);
  std::erase(caches.all, this);
}

std::atomic<std::uint64_t>& Kept::clock() {
  static std::atomic<std::uint64_t> adds = 0;
  return adds;
}

}  // namespace lockstep
