// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/allocator.h"

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LOCKSTEP_HAS_POSIX_MEMALIGN 1
#endif

namespace lockstep::collectives {
namespace {

#ifdef LOCKSTEP_HAS_POSIX_MEMALIGN
std::atomic<bool> huge_pages{false};
std::atomic<Arena*> arena{nullptr};  // never destroyed: blocks are freed until the very end

constexpr std::size_t kLarge = 4 << 20;
constexpr std::size_t kHugePage = 2 << 20;

bool is_alignment(std::size_t n) { return n % sizeof(void*) == 0 && n != 0 && (n & (n - 1)) == 0; }

/// A function of the next allocator: of one that was loaded before the C library (jemalloc, tcmalloc, a
/// checker), or of the C library.
template <class Function>
Function* next_of(std::atomic<Function*>& known, const char* name) {
  Function* next = known.load(std::memory_order_relaxed);
  if (next == nullptr) {
    next = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
    known.store(next, std::memory_order_relaxed);
  }
  return next;
}

Arena* owner_of(const void* block) {
  Arena* own = arena.load(std::memory_order_acquire);
  return own != nullptr && own->owns(block) ? own : nullptr;
}

/// Room for everything that can be in memory at once, twice, because of fragmentation.
std::size_t address_space() {
  const auto pages = static_cast<std::size_t>(std::max(sysconf(_SC_PHYS_PAGES), 0L)),
             page = static_cast<std::size_t>(std::max(sysconf(_SC_PAGESIZE), 0L));
  return std::max<std::size_t>(2 * pages * page, std::size_t{16} << 30);
}

void open_arena() {
  auto* made = new Arena(address_space(), Arena::kKeptBytes, huge_pages);
  if (!made->descriptor_to_read()) {
    delete made;
    return;
  }
  arena.store(made, std::memory_order_release);
  pthread_atfork(nullptr, nullptr, [] { arena.load(std::memory_order_relaxed)->abandon(); });
}

void ask_for_huge_pages(void* block, std::size_t size) {
  const auto start = reinterpret_cast<std::uintptr_t>(block);
  const std::uintptr_t begin = (start + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t end = (start + size) / kHugePage * kHugePage;
  const int before = errno;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  errno = before;
}
#endif

}  // namespace

AllocatorTuning tune_allocator(bool shares, const Environment& environment) {
#ifdef LOCKSTEP_HAS_POSIX_MEMALIGN
  huge_pages = environment.get("LOCKSTEP_HUGE_PAGES") != "0";
  if (shares && process_arena() == nullptr && environment.get("LOCKSTEP_SHARED_BLOCKS") != "0") open_arena();
  return {huge_pages, process_arena() != nullptr};
#else
  static_cast<void>(shares);
  static_cast<void>(environment);
  return {};
#endif
}

Arena* process_arena() {
#ifdef LOCKSTEP_HAS_POSIX_MEMALIGN
  return arena.load(std::memory_order_acquire);
#else
  return nullptr;
#endif
}

}  // namespace lockstep::collectives

#ifdef LOCKSTEP_HAS_POSIX_MEMALIGN
// These take the place of those that the program would have without them, for plugins that are opened later
// too.

extern "C" int posix_memalign(void** block, std::size_t alignment, std::size_t size) noexcept {
  using namespace lockstep::collectives;
  static std::atomic<int (*)(void**, std::size_t, std::size_t)> next{nullptr};
  if (size >= Arena::kLeastBytes && is_alignment(alignment)) {
    if (Arena* own = arena.load(std::memory_order_acquire)) {
      if (void* made = own->allocate(size, alignment)) {
        *block = made;
        return 0;
      }
    }
  }
  const bool huge = size >= kLarge && huge_pages.load(std::memory_order_relaxed);
  // A block that the C library maps by itself may also begin at a huge page.
  constexpr std::size_t kAlwaysMapped = 32 << 20;
  if (huge && size > kAlwaysMapped && is_alignment(alignment) && alignment < kHugePage) alignment = kHugePage;
  const int error = next_of(next, "posix_memalign")(block, alignment, size);
  if (huge && error == 0) ask_for_huge_pages(*block, size);
  return error;
}

extern "C" void free(void* block) noexcept {
  using namespace lockstep::collectives;
  static std::atomic<void (*)(void*)> next{nullptr};
  if (block == nullptr) return;
  if (Arena* own = owner_of(block)) return own->free(block);
  next_of(next, "free")(block);
}

extern "C" void* realloc(void* block, std::size_t size) noexcept {
  using namespace lockstep::collectives;
  static std::atomic<void* (*)(void*, std::size_t)> next{nullptr};
  Arena* own = owner_of(block);
  if (own == nullptr) return next_of(next, "realloc")(block, size);
  void* moved = std::malloc(size);
  if (moved == nullptr && size != 0) return nullptr;
  if (moved != nullptr) std::memcpy(moved, block, std::min(size, own->size_of_block(block)));
  own->free(block);
  return moved;
}

extern "C" std::size_t malloc_usable_size(void* block) noexcept {
  using namespace lockstep::collectives;
  static std::atomic<std::size_t (*)(void*)> next{nullptr};
  if (Arena* own = owner_of(block)) return own->size_of_block(block);
  return next_of(next, "malloc_usable_size")(block);
}
#endif
