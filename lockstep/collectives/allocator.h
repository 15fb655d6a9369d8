#pragma once

#include "lockstep/base/environment.h"

namespace lockstep::collectives {

/// From now on large blocks of aligned memory, such as XLA takes for the result of each launch, are made of
/// huge pages where the system lets a program ask for them (transparent_hugepage: madvise or always). Such
/// blocks go back to the system when they are freed and are faulted in again at the next launch; huge pages
/// make that several times cheaper, and cost no memory. For this, a program that links Lockstep has a
/// `posix_memalign` of its own, which asks that of the allocator in use for memory (the C library's, or one
/// that LD_PRELOAD names); `free` stays as it is.
///
/// To be called once, early. LOCKSTEP_HUGE_PAGES=0 turns it off. Gives whether it is on: it is not where the
/// C library is not glibc, nor in programs with a sanitizer.
bool tune_allocator(const Environment& environment = Environment::process());

}  // namespace lockstep::collectives
