#include "lockstep/collectives/allocator.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LOCKSTEP_HAS_POSIX_MEMALIGN 1
#endif

namespace lockstep::collectives {
namespace {

#ifdef LOCKSTEP_HAS_POSIX_MEMALIGN
std::atomic<bool> huge_pages{false};

constexpr std::size_t kLarge = 4 << 20;
constexpr std::size_t kHugePage = 2 << 20;

bool is_alignment(std::size_t n) { return n % sizeof(void*) == 0 && n != 0 && (n & (n - 1)) == 0; }

/// That of the allocator whose `free` the program has: of one that was loaded before the C library (jemalloc,
/// tcmalloc, a checker), or of the C library.
auto next_posix_memalign() {
  static const auto next =
      reinterpret_cast<int (*)(void**, std::size_t, std::size_t)>(dlsym(RTLD_NEXT, "posix_memalign"));
  return next;
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

bool tune_allocator(const Environment& environment) {
#ifdef LOCKSTEP_HAS_POSIX_MEMALIGN
  huge_pages = environment.get("LOCKSTEP_HUGE_PAGES") != "0";
  return huge_pages;
#else
  static_cast<void>(environment);
  return false;
#endif
}

}  // namespace lockstep::collectives

#ifdef LOCKSTEP_HAS_POSIX_MEMALIGN
/// Takes the place of the one that the program would have without it, for plugins that are opened later too.
extern "C" int posix_memalign(void** block, std::size_t alignment, std::size_t size) noexcept {
  using namespace lockstep::collectives;
  const bool huge = size >= kLarge && huge_pages.load(std::memory_order_relaxed);
  // A block that the C library maps by itself may as well begin where a huge page does.
  constexpr std::size_t kAlwaysMapped = 32 << 20;
  if (huge && size > kAlwaysMapped && is_alignment(alignment) && alignment < kHugePage) alignment = kHugePage;
  const int error = next_posix_memalign()(block, alignment, size);
  if (huge && error == 0) ask_for_huge_pages(*block, size);
  return error;
}
#endif
