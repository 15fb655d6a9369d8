// SPDX-License-Identifier: Apache-2.0
// A shared library that allocates, for the test of tune_allocator.
#include <malloc.h>

#include <cstdlib>

extern "C" {

void* make_block(std::size_t alignment, std::size_t bytes) {
  void* block = nullptr;
  return posix_memalign(&block, alignment, bytes) == 0 ? block : nullptr;
}

int error_of_block(std::size_t alignment, std::size_t bytes) {
  void* block = nullptr;
  return posix_memalign(&block, alignment, bytes);
}

void free_block(void* block) { std::free(block); }

/// Its address is taken, so it is no call.
void (*const free_by_address)(void*) = std::free;
void free_block_by_address(void* block) { free_by_address(block); }

void* change_block(void* block, std::size_t bytes) { return std::realloc(block, bytes); }
std::size_t size_of_block(void* block) { return malloc_usable_size(block); }
}
