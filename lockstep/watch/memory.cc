// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/memory.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include "lockstep/base/memory_file.h"

namespace lockstep::watch {
namespace {

Memory* map(int flags, int descriptor) {
  void* const at = mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, flags, descriptor, 0);
  return at == MAP_FAILED ? nullptr : static_cast<Memory*>(at);
}

}  // namespace

int create_memory() { return make_reserved_memory_file("lockstep-recorder", sizeof(Memory)); }

Memory* map_memory(int descriptor) {
  struct stat status {};
  if (descriptor < 0 || fstat(descriptor, &status) != 0 || status.st_size != sizeof(Memory)) return nullptr;
  return map(MAP_SHARED, descriptor);
}

Memory* map_private_memory() { return map(MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1); }

void unmap_memory(Memory* memory) {
  if (memory != nullptr) munmap(memory, sizeof(Memory));
}

}  // namespace lockstep::watch
