#pragma once

#include "lockstep/base/environment.h"

namespace lockstep::collectives {

/// Lets the C library keep memory that is freed, so that the large results that XLA allocates and frees at
/// each launch are not given back to the system and faulted in again: from now on large blocks come from the
/// heap and not from mmap, and the heap is not trimmed. The process then keeps the most memory that it has
/// used at a time. To be called once, early. LOCKSTEP_KEEP_MEMORY=0 turns it off; then, and where the C
/// library is not glibc, it does nothing and gives false.
bool tune_allocator(const Environment& environment = Environment::process());

}  // namespace lockstep::collectives
