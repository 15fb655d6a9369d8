#pragma once

#include "lockstep/base/environment.h"
#include "lockstep/collectives/arena.h"

namespace lockstep::collectives {

/// What large blocks of aligned memory are made of, such as XLA takes for the result of each launch.
struct AllocatorTuning {
  bool huge_pages = false;  ///< where the system lets a program ask for them
  bool shares = false;      ///< of the process's arena, which other processes may read
};

/// From now on large blocks of aligned memory are made of huge pages where the system lets a program ask for
/// them (transparent_hugepage: madvise or always), which makes faulting them in several times cheaper. Where
/// the process `shares`, they are in its arena: the other processes of the host read them where they are, and
/// freed blocks are used again. For this, a program that links Lockstep has a `posix_memalign`, `free`,
/// `realloc` and `malloc_usable_size` of its own, which ask those of the allocator in use (the C library's,
/// or one that LD_PRELOAD names) for all else.
///
/// To be called once, early; the arena stays for the life of the process. LOCKSTEP_HUGE_PAGES=0 and
/// LOCKSTEP_SHARED_BLOCKS=0 turn the one and the other off. Gives what is on: nothing where the C library is
/// not glibc, and in programs with a sanitizer.
AllocatorTuning tune_allocator(bool shares, const Environment& environment = Environment::process());

/// The process's own, from which its large aligned blocks come; null where they do not.
Arena* process_arena();

}  // namespace lockstep::collectives
