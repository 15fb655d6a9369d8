// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "lockstep/base/file_descriptor.h"
#include "lockstep/base/memory_file.h"

namespace lockstep::collectives {

inline constexpr std::size_t kHugePage = 2 << 20;

/// Large blocks of a process's memory: a part of the address space. Blocks get pages as they are written.
/// Freed blocks keep their pages for later blocks, up to a limit. What no block has taken yet cannot be
/// accessed, so that nothing that walks the address space gives it pages (mlockall). A shared arena maps a
/// memory file, which other processes of the host may read; it has no copy in forked children, and is not in
/// core files. All methods may be called from any thread.
class Arena {
 public:
  static constexpr std::size_t kLeastBytes = 8 << 10;  ///< smaller arrays are never read in place
  static constexpr std::size_t kKeptBytes = 256 << 20;

  struct Private {};

  /// A private one. Null `base()` if there is no address space.
  Arena(Private, std::size_t bytes, std::size_t kept, bool huge_pages);

  /// A shared arena of `bytes` of address space, which itself takes no memory. Freed blocks keep pages of at
  /// most `kept` bytes. Has no descriptor if the system does not provide such memory. With `reserve` a block
  /// has its pages before it is written: where the system counts memory strictly, it would otherwise end the
  /// program (SIGBUS) in place of an error.
  explicit Arena(std::size_t bytes, std::size_t kept = kKeptBytes, bool huge_pages = true,
                 bool reserve = counts_memory_strictly());
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Null if there is no room or memory. The content of the block is undefined.
  void* allocate(std::size_t bytes, std::size_t alignment = 64);

  bool owns(const void* block) const {
    const auto* at = static_cast<const std::byte*>(block);
    return at >= base_ && at < base_ + bytes_;
  }

  /// free: returns a block of `allocate`. size_of_block: the usable size of a block.
  void free(void* block);
  std::size_t size_of_block(const void* block) const;

  /// The offset of these bytes; -1 unless all of them are in the arena.
  std::int64_t offset_of(const void* begin, std::size_t bytes) const;

  /// Null if there is no memory.
  const std::byte* base() const { return base_; }

  /// A descriptor for other processes to map (ArenaView); empty if there is no memory, or for a private one.
  FileDescriptor descriptor_to_read() const;

  /// For a forked child: the content belongs to the parent and must not be changed.
  void abandon();

 private:
  struct Free {
    std::size_t bytes;
    bool has_pages;
  };
  using Ranges = std::map<std::size_t, Free>;                   // by offset
  using Sizes = std::set<std::pair<std::size_t, std::size_t>>;  // bytes and offset

  /// Takes address space; with `file` it maps it.
  void map(std::size_t bytes, bool huge_pages, FileDescriptor file);

  /// The smallest free range that has at least `bytes`, with or without pages.
  Ranges::iterator best_fit(std::size_t bytes, bool has_pages);
  void add_free(std::size_t offset, Free range);
  Ranges::iterator remove_free(Ranges::iterator range);  ///< returns the next one
  void drop_pages(std::size_t offset, std::size_t bytes);
  void drop_all_pages();
  /// Allows access to the first `end` bytes, and reserves memory for the block at their end.
  bool open_block(std::size_t begin, std::size_t end, bool has_pages);

  FileDescriptor file_;
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  const std::size_t most_kept_;
  const bool reserve_;
  mutable std::mutex mutex_;
  std::size_t kept_ = 0, opened_ = 0;
  Ranges free_;
  Sizes sizes_[2];                            // of the free ranges, by Free::has_pages
  std::map<std::size_t, std::size_t> taken_;  // blocks by offset
  std::atomic<bool> abandoned_ = false;
};

/// Another process's arena, mapped for reading as far as it was asked for.
class ArenaView {
 public:
  ArenaView() = default;

  /// A view of this process's own arena, which must outlive it.
  explicit ArenaView(const Arena& own);

  /// From a descriptor that the other process has sent. Not readable if the file is empty or there is no
  /// address space.
  explicit ArenaView(const FileDescriptor& fd);
  ~ArenaView();
  ArenaView(const ArenaView&) = delete;
  ArenaView& operator=(const ArenaView&) = delete;

  bool is_readable() const { return base_ != nullptr; }

  /// These bytes of a block, which must be in the arena. May be called from any thread.
  const std::byte* read(std::size_t offset, std::size_t bytes) {
    if (offset + bytes > opened_.load(std::memory_order_acquire)) open(offset + bytes);
    return base_ + offset;
  }

 private:
  void open(std::size_t end);

  const std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;  ///< 0 if the memory belongs to another object
  std::mutex mutex_;
  std::atomic<std::size_t> opened_ = 0;
};

}  // namespace lockstep::collectives
