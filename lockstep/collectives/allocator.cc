// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/allocator.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "lockstep/base/imports.h"

namespace lockstep::collectives {
namespace {

std::atomic<bool> huge_pages{false};

// Never destroyed: blocks are freed until the very end. A process may have both, if it joins another job.
std::atomic<Arena*> private_arena{nullptr}, shared_arena{nullptr};

constexpr std::size_t kLarge = 4 << 20;

/// The C library gives smaller blocks out again without the kernel, and in less time.
constexpr std::size_t kLeastPrivate = 64 << 10;

bool is_alignment(std::size_t n) { return n % sizeof(void*) == 0 && n != 0 && (n & (n - 1)) == 0; }

Arena* owner_of(const void* block) {
  for (const std::atomic<Arena*>* each : {&shared_arena, &private_arena}) {
    Arena* own = each->load(std::memory_order_acquire);
    if (own != nullptr && own->owns(block)) return own;
  }
  return nullptr;
}

/// Null if blocks of this size are not allocated there.
Arena* arena_for(std::size_t size) {
  if (size < Arena::kLeastBytes) return nullptr;
  if (Arena* shared = shared_arena.load(std::memory_order_acquire)) return shared;
  return size < kLeastPrivate ? nullptr : private_arena.load(std::memory_order_acquire);
}

/// Room for everything that can be in memory at once, twice, because of fragmentation.
std::size_t address_space() {
  const auto pages = static_cast<std::size_t>(std::max(sysconf(_SC_PHYS_PAGES), 0L)),
             page = static_cast<std::size_t>(std::max(sysconf(_SC_PAGESIZE), 0L));
  return std::max<std::size_t>(2 * pages * page, std::size_t{16} << 30);
}

/// A forked child leaves its parent's blocks alone; their lock may be held for ever there.
void abandon_all() {
  for (const std::atomic<Arena*>* each : {&shared_arena, &private_arena})
    if (Arena* own = each->load(std::memory_order_relaxed)) own->abandon();
}

void open_arena(std::atomic<Arena*>& place, std::unique_ptr<Arena> made) {
  if (made->base() == nullptr) return;
  place.store(made.release(), std::memory_order_release);
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, abandon_all); });
}

bool address_space_is_limited() {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

void ask_for_huge_pages(void* block, std::size_t size) {
  const auto start = reinterpret_cast<std::uintptr_t>(block);
  const std::uintptr_t begin = (start + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t end = (start + size) / kHugePage * kHugePage;
  const int before = errno;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  errno = before;
}

// Functions that a library calls in place of the C library's functions of these names.

int aligned_block(void** block, std::size_t alignment, std::size_t size) {
  if (Arena* own = arena_for(size); own != nullptr && is_alignment(alignment)) {
    if (void* made = own->allocate(size, alignment)) {
      *block = made;
      return 0;
    }
  }
  const bool huge = size >= kLarge && huge_pages.load(std::memory_order_relaxed);
  // A block that the C library maps by itself may also begin at a huge page.
  constexpr std::size_t kAlwaysMapped = 32 << 20;
  if (huge && size > kAlwaysMapped && is_alignment(alignment) && alignment < kHugePage) alignment = kHugePage;
  const int error = ::posix_memalign(block, alignment, size);
  if (huge && error == 0) ask_for_huge_pages(*block, size);
  return error;
}

void free_any(void* block) {
  if (Arena* own = block != nullptr ? owner_of(block) : nullptr) return own->free(block);
  std::free(block);
}

void* change_size(void* block, std::size_t size) {
  Arena* own = owner_of(block);
  if (own == nullptr) return std::realloc(block, size);
  void* moved = std::malloc(size);
  if (moved == nullptr && size != 0) return nullptr;
  if (moved != nullptr) std::memcpy(moved, block, std::min(size, own->size_of_block(block)));
  own->free(block);
  return moved;
}

std::size_t usable_size(void* block) {
  if (Arena* own = owner_of(block)) return own->size_of_block(block);
  return ::malloc_usable_size(block);
}

template <class Function>
bool serve(void* library, const char* name, Function* function) {
  return replace_import(library, name, reinterpret_cast<void*>(function));
}

}  // namespace

AllocatorTuning tune_allocator(void* library, LargeBlocks from, std::size_t kept,
                               const Environment& environment) {
  // First those that free: no block of the arena may come to one that does not know it.
  const bool frees = serve(library, "free", free_any);
  serve(library, "realloc", change_size);
  serve(library, "malloc_usable_size", usable_size);
  if (!frees || !serve(library, "posix_memalign", aligned_block)) return {};
  huge_pages = environment.get("LOCKSTEP_HUGE_PAGES") != "0";
  const bool shares = from == LargeBlocks::kShared && environment.get("LOCKSTEP_SHARED_BLOCKS") != "0";
  if (shares && process_arena() == nullptr)
    open_arena(shared_arena, std::make_unique<Arena>(address_space(), kept, huge_pages));
  if (process_arena() != nullptr) return {huge_pages, LargeBlocks::kShared};
  const bool keeps = from != LargeBlocks::kAsBefore && kept != 0 && !address_space_is_limited();
  if (keeps && private_arena.load() == nullptr)
    open_arena(private_arena, std::make_unique<Arena>(Arena::Private(), address_space(), kept, huge_pages));
  return {huge_pages, private_arena.load() != nullptr ? LargeBlocks::kKept : LargeBlocks::kAsBefore};
}

Arena* process_arena() { return shared_arena.load(std::memory_order_acquire); }

}  // namespace lockstep::collectives
