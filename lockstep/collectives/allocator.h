// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/environment.h"
#include "lockstep/collectives/arena.h"

namespace lockstep::collectives {

/// How the large aligned blocks of a library are allocated.
struct AllocatorTuning {
  bool huge_pages = false;  ///< if the system allows programs to request them
  bool shares = false;      ///< in the process's arena, which other processes may read
};

/// Takes the place of `posix_memalign`, `free`, `realloc` and `malloc_usable_size` for the calls of one
/// shared library, a plugin that dlopen has returned: the program and all other libraries keep their
/// allocator, which also makes and frees all other blocks of this one. From now on its large aligned blocks,
/// such as XLA's results of each launch, use huge pages, if the system allows programs to request them
/// (transparent_hugepage: madvise or always); this makes page faults several times cheaper. If the process
/// `shares`, they are allocated in its arena: the other processes of the host read them in place, and freed
/// blocks are reused.
///
/// The arena exists until the process ends. LOCKSTEP_HUGE_PAGES=0 and LOCKSTEP_SHARED_BLOCKS=0 turn the two
/// off. Returns what is on: nothing if the library's calls cannot be
/// replaced (replace_import).
AllocatorTuning tune_allocator(void* library, bool shares,
                               const Environment& environment = Environment::process());

/// This process's arena for large aligned blocks; null if it has none.
Arena* process_arena();

}  // namespace lockstep::collectives
