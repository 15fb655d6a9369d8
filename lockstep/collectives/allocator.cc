#include "lockstep/collectives/allocator.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace lockstep::collectives {

bool tune_allocator(const Environment& environment) {
  if (environment.get("LOCKSTEP_KEEP_MEMORY") == "0") return false;
#ifdef __GLIBC__
  return mallopt(M_MMAP_MAX, 0) == 1 && mallopt(M_TRIM_THRESHOLD, -1) == 1;
#else
  return false;
#endif
}

}  // namespace lockstep::collectives
