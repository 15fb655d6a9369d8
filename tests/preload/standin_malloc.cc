// SPDX-License-Identifier: Apache-2.0
// Stands in for an allocator that LD_PRELOAD names, such as jemalloc: all blocks are its own, and it ends the
// program where it is given one that it has not made.

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

extern "C" {

void* __libc_malloc(std::size_t size);
void __libc_free(void* block);

namespace {

constexpr std::uint64_t kOwn = 0x57a2d121'a110ca7e;

/// Before each block.
struct alignas(16) Header {
  std::uint64_t own;
  std::size_t size;
  void* whole;
};

void* make(std::size_t alignment, std::size_t size) noexcept {
  if (alignment < alignof(Header)) alignment = alignof(Header);
  auto* whole = static_cast<char*>(__libc_malloc(size + alignment + sizeof(Header)));
  if (whole == nullptr) return nullptr;
  const auto first = reinterpret_cast<std::uintptr_t>(whole) + sizeof(Header);
  auto* block = reinterpret_cast<Header*>((first + alignment - 1) / alignment * alignment);
  block[-1] = {kOwn, size, whole};
  return block;
}

Header& header(void* block) noexcept {
  Header& header = static_cast<Header*>(block)[-1];
  if (header.own != kOwn) {
    constexpr char kText[] = "stand-in for malloc: a block that another allocator has made\n";
    if (write(STDERR_FILENO, kText, sizeof kText - 1) > 0) std::abort();
    std::abort();
  }
  return header;
}

}  // namespace

void* malloc(std::size_t size) noexcept { return make(1, size); }

void* calloc(std::size_t count, std::size_t size) noexcept {
  std::size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return nullptr;
  void* block = make(1, bytes);
  if (block != nullptr) std::memset(block, 0, bytes);
  return block;
}

void free(void* block) noexcept {
  if (block == nullptr) return;
  Header& freed = header(block);
  freed.own = 0;
  __libc_free(freed.whole);
}

void* realloc(void* block, std::size_t size) noexcept {
  void* longer = make(1, size);
  if (block == nullptr || longer == nullptr) return longer;
  const std::size_t before = header(block).size;
  std::memcpy(longer, block, before < size ? before : size);
  free(block);
  return longer;
}

int posix_memalign(void** block, std::size_t alignment, std::size_t size) noexcept {
  if (alignment % sizeof(void*) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0) return EINVAL;
  *block = make(alignment, size);
  return *block == nullptr ? ENOMEM : 0;
}

void* memalign(std::size_t alignment, std::size_t size) noexcept { return make(alignment, size); }
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept { return make(alignment, size); }
std::size_t malloc_usable_size(void* block) noexcept { return block == nullptr ? 0 : header(block).size; }
}
