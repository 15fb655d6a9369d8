// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/collectives/shares.h"

namespace lockstep::collectives {
namespace {

constexpr std::size_t kGrain = 4 << 10;    // offsets and sizes are multiples of it: pages
constexpr std::size_t kOpened = 64 << 20;  ///< How much more can be accessed at a time.

}  // namespace

Arena::Arena(std::size_t bytes, std::size_t kept, bool huge_pages, bool reserve)
    : most_kept_(kept), reserve_(reserve) {
  bytes = round_up(bytes, kHugePage);
  FileDescriptor file(make_memory_file("lockstep-blocks", bytes));
  if (file) map(bytes, huge_pages, std::move(file));
}

Arena::Arena(Private, std::size_t bytes, std::size_t kept, bool huge_pages)
    : most_kept_(kept), reserve_(false) {
  map(round_up(bytes, kHugePage), huge_pages, {});
}

void Arena::map(std::size_t bytes, bool huge_pages, FileDescriptor file) {
  // Somewhat more, so that it begins at a huge page.
  void* room =
      mmap(nullptr, bytes + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return;
  auto* base = reinterpret_cast<std::byte*>(round_up(reinterpret_cast<std::size_t>(room), kHugePage));
  auto* const end = static_cast<std::byte*>(room) + bytes + kHugePage;
  if (base != room) munmap(room, static_cast<std::size_t>(base - static_cast<std::byte*>(room)));
  if (base + bytes != end) munmap(base + bytes, static_cast<std::size_t>(end - (base + bytes)));
  if (file) {
    if (mmap(base, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file.get(), 0) == MAP_FAILED) {
      munmap(base, bytes);
      return;
    }
    // A child would write into the parent's arrays.
    madvise(base, bytes, MADV_DONTFORK);
    // The kernel would fill each hole with a page to write it.
    madvise(base, bytes, MADV_DONTDUMP);
  }
  if (huge_pages) madvise(base, bytes, MADV_HUGEPAGE);
  file_ = std::move(file);
  base_ = base;
  bytes_ = bytes;
  add_free(0, {bytes, false});
}

Arena::~Arena() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

Arena::Ranges::iterator Arena::best_fit(std::size_t bytes, bool has_pages) {
  const Sizes& sizes = sizes_[has_pages ? 1 : 0];
  const auto best = sizes.lower_bound({bytes, 0});
  return best == sizes.end() ? free_.end() : free_.find(best->second);
}

void* Arena::allocate(std::size_t bytes, std::size_t alignment) {
  if (base_ == nullptr || abandoned_ || alignment > kHugePage || bytes > bytes_) return nullptr;
  bytes = round_up(std::max<std::size_t>(bytes, 1), kGrain);
  const std::size_t spare = alignment > kGrain ? alignment - kGrain : 0;
  const std::lock_guard lock(mutex_);
  auto range = best_fit(bytes + spare, true);
  if (range == free_.end()) range = best_fit(bytes + spare, false);
  if (range == free_.end()) {
    drop_all_pages();
    range = best_fit(bytes + spare, false);
    if (range == free_.end()) return nullptr;
  }
  const auto [begin, whole] = *range;
  const std::size_t at = alignment > kGrain ? round_up(begin, alignment) : begin;
  if (!open_block(at, at + bytes, whole.has_pages)) return nullptr;
  remove_free(range);
  if (at > begin) add_free(begin, {at - begin, whole.has_pages});
  const std::size_t end = begin + whole.bytes;
  if (end > at + bytes) add_free(at + bytes, {end - at - bytes, whole.has_pages});
  if (whole.has_pages) kept_ -= bytes;
  taken_.emplace(at, bytes);
  return base_ + at;
}

bool Arena::open_block(std::size_t begin, std::size_t end, bool has_pages) {
  if (end > opened_) {
    const std::size_t until = std::min(round_up(end, kOpened), bytes_);
    if (mprotect(base_ + opened_, until - opened_, PROT_READ | PROT_WRITE) != 0) return false;
    opened_ = until;
  }
  return !reserve_ || has_pages ||
         fallocate(file_.get(), 0, static_cast<off_t>(begin), static_cast<off_t>(end - begin)) == 0;
}

void Arena::free(void* block) {
  if (abandoned_) return;
  const std::lock_guard lock(mutex_);
  const auto offset = static_cast<std::size_t>(static_cast<std::byte*>(block) - base_);
  const auto taken = taken_.find(offset);
  if (taken == taken_.end()) return;
  const std::size_t bytes = taken->second;
  taken_.erase(taken);
  const bool keep = kept_ + bytes <= most_kept_;
  if (keep) kept_ += bytes;
  if (!keep) drop_pages(offset, bytes);
  add_free(offset, {bytes, keep});
}

std::size_t Arena::size_of_block(const void* block) const {
  const std::lock_guard lock(mutex_);
  const auto taken = taken_.find(static_cast<std::size_t>(static_cast<const std::byte*>(block) - base_));
  return taken == taken_.end() ? 0 : taken->second;
}

void Arena::add_free(std::size_t offset, Free range) {
  const auto joins = [&](Ranges::iterator other) { return other->second.has_pages == range.has_pages; };
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + range.bytes == next->first && joins(next)) {
    range.bytes += next->second.bytes;
    next = remove_free(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second.bytes == offset && joins(before)) {
      offset = before->first;
      range.bytes += before->second.bytes;
      next = remove_free(before);
    }
  }
  free_.emplace_hint(next, offset, range);
  sizes_[range.has_pages ? 1 : 0].emplace(range.bytes, offset);
}

Arena::Ranges::iterator Arena::remove_free(Ranges::iterator range) {
  sizes_[range->second.has_pages ? 1 : 0].erase({range->second.bytes, range->first});
  return free_.erase(range);
}

void Arena::drop_pages(std::size_t offset, std::size_t bytes) {
  const int before = errno;
  if (!file_)
    madvise(base_ + offset, bytes, MADV_DONTNEED);
  else
    fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(bytes));
  errno = before;
}

void Arena::drop_all_pages() {
  const Ranges ranges = std::exchange(free_, {});
  for (Sizes& sizes : sizes_) sizes.clear();
  for (const auto& [offset, range] : ranges) {
    if (range.has_pages) drop_pages(offset, range.bytes);
    add_free(offset, {range.bytes, false});
  }
  kept_ = 0;
}

std::int64_t Arena::offset_of(const void* begin, std::size_t bytes) const {
  if (base_ == nullptr || !owns(begin)) return -1;
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(begin) - base_);
  return bytes <= bytes_ - offset ? static_cast<std::int64_t>(offset) : -1;
}

FileDescriptor Arena::descriptor_to_read() const {
  if (base_ == nullptr || !file_) return {};
  return FileDescriptor(
      ::open(("/proc/self/fd/" + std::to_string(file_.get())).c_str(), O_RDONLY | O_CLOEXEC));
}

void Arena::abandon() { abandoned_ = true; }

ArenaView::ArenaView(const FileDescriptor& fd) {
  struct stat status {};
  if (!fd || fstat(fd.get(), &status) != 0 || status.st_size <= 0) return;
  const auto bytes = static_cast<std::size_t>(status.st_size);
  void* base = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
  if (base == MAP_FAILED) return;
  madvise(base, bytes, MADV_DONTFORK);
  madvise(base, bytes, MADV_DONTDUMP);
  base_ = static_cast<std::byte*>(base);
  bytes_ = bytes;
}

ArenaView::ArenaView(const Arena& own)
    : base_(own.base()), opened_(std::numeric_limits<std::size_t>::max()) {}

ArenaView::~ArenaView() {
  if (bytes_ != 0) munmap(const_cast<std::byte*>(base_), bytes_);
}

void ArenaView::open(std::size_t end) {
  const std::lock_guard lock(mutex_);
  const std::size_t before = opened_.load(std::memory_order_relaxed);
  const std::size_t until = std::min(round_up(end, kOpened), bytes_);
  if (until <= before) return;
  if (mprotect(const_cast<std::byte*>(base_) + before, until - before, PROT_READ) != 0)
    fail("cannot read the memory of another process of this host: {}", std::strerror(errno));
  opened_.store(until, std::memory_order_release);
}

}  // namespace lockstep::collectives
