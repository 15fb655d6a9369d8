// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/environment.h"
#include "lockstep/collectives/arena.h"

namespace lockstep::collectives {

/// Where the large aligned blocks of a library come from.
enum class LargeBlocks {
  kAsBefore,  ///< the C library's allocator
  kKept,      ///< an arena of this process, which keeps freed blocks for later ones
  kShared,    ///< such an arena that other processes of the host may read
};

/// How the large aligned blocks of a library are allocated.
struct AllocatorTuning {
  bool huge_pages = false;  ///< if the system allows programs to request them
  LargeBlocks from = LargeBlocks::kAsBefore;
};

/// Takes the place of `posix_memalign`, `free`, `realloc` and `malloc_usable_size` for the calls of one
/// shared library, a plugin that dlopen has returned: the program and all other libraries keep their
/// allocator, which also makes and frees all other blocks of this one. From now on its large aligned blocks,
/// such as XLA's results of each launch, use huge pages, if the system allows programs to request them
/// (transparent_hugepage: madvise or always); this makes page faults several times cheaper. They come `from`
/// an arena if it is wanted and can be had: the kernel then does not clear the memory of each step anew. A
/// private one is not made where the process's address space is limited (ulimit -v).
///
/// An arena exists until the process ends, and keeps at most `kept` bytes of freed blocks; with 0 there is no
/// private one. LOCKSTEP_HUGE_PAGES=0 and LOCKSTEP_SHARED_BLOCKS=0 turn huge pages and sharing off. Returns
/// what is on: nothing if the library's calls cannot be replaced (replace_import).
AllocatorTuning tune_allocator(void* library, LargeBlocks from, std::size_t kept = Arena::kKeptBytes,
                               const Environment& environment = Environment::process());

/// This process's shared arena for large aligned blocks; null if it has none.
Arena* process_arena();

}  // namespace lockstep::collectives
