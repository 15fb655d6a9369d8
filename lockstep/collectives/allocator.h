// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/environment.h"
#include "lockstep/collectives/arena.h"

namespace lockstep::collectives {

/// How large blocks of aligned memory are allocated, such as XLA uses for the results of each launch.
struct AllocatorTuning {
  bool huge_pages = false;  ///< if the system allows programs to request them
  bool shares = false;      ///< in the process's arena, which other processes may read
};

/// From now on large blocks of aligned memory use huge pages, if the system allows programs to request them
/// (transparent_hugepage: madvise or always); this makes page faults several times cheaper. If the process
/// `shares`, they are allocated in its arena: the other processes of the host read them in place, and freed
/// blocks are reused. To do so, a program that links Lockstep has its own `posix_memalign`, `free`, `realloc`
/// and `malloc_usable_size`, which call those of the current allocator (the C library's, or one from
/// LD_PRELOAD) for everything else.
///
/// Call it once, early; the arena exists until the process ends. LOCKSTEP_HUGE_PAGES=0 and
/// LOCKSTEP_SHARED_BLOCKS=0 turn the two off. Returns what is on: nothing if the C library is not glibc, and
/// in programs with a sanitizer.
AllocatorTuning tune_allocator(bool shares, const Environment& environment = Environment::process());

/// This process's arena for large aligned blocks; null if it has none.
Arena* process_arena();

}  // namespace lockstep::collectives
