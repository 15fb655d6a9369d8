// SPDX-License-Identifier: Apache-2.0
#include "lockstep/pjrt/pinned_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "lockstep/base/cores.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/pjrt/api.h"

namespace lockstep::pjrt {
namespace {

/// The bytes that a thread copies at a time.
constexpr std::size_t kPiece = std::size_t{4} << 20;

/// One thread copies some 10 GB/s, and the bus of a GPU carries some 50.
constexpr std::size_t kMostThreads = 8;

std::size_t threads_for(std::size_t pieces) {
  const std::size_t cores = std::max<std::size_t>(from_mask(allowed_cores()).size(), 1);
  return std::min({pieces, cores, kMostThreads});
}

/// Calls `copy(thread, offset, size)` for all pieces, in several threads. If one throws, no further piece is
/// begun, and the first exception is thrown once all threads are done.
template <class Copy>
void for_each_piece(std::size_t bytes, std::size_t threads, const Copy& copy) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr first;
  const auto work = [&](std::size_t thread) {
    try {
      for (std::size_t at; (at = next.fetch_add(kPiece)) < bytes;)
        copy(thread, at, std::min(kPiece, bytes - at));
    } catch (...) {
      next = bytes;
      std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t thread = 1; thread < threads; ++thread) others.emplace_back(work, thread);
    work(0);
  }
  if (first) std::rethrow_exception(first);
}

std::size_t pieces_in(std::size_t bytes) { return (bytes + kPiece - 1) / kPiece; }

}  // namespace

struct PinnedMemory::Blocks {
  struct Block {
    void* address;
    std::size_t bytes;
    bool taken;
  };

  const PJRT_Api* api;
  PJRT_Client* client;  ///< null: it is gone
  std::size_t limit;
  std::mutex mutex;
  std::vector<Block> all;
  std::size_t held = 0;
  bool refused = false;  ///< the plugin cannot pin memory
  int being_read = 0;    ///< copies that devices may still read
  std::condition_variable read;

  /// The smallest free block that has the room and is not more than twice as large.
  void* take_free(std::size_t bytes) {
    Block* best = nullptr;
    for (Block& block : all) {
      if (block.taken || block.bytes < bytes || block.bytes > 2 * bytes) continue;
      if (best == nullptr || block.bytes < best->bytes) best = &block;
    }
    if (best == nullptr) return nullptr;
    best->taken = true;
    return best->address;
  }

  void* make(std::size_t bytes) {
    void* const memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, /*offset=*/0);
    if (memory == MAP_FAILED) return nullptr;
    madvise(memory, bytes, MADV_HUGEPAGE);  // fewer pages to pin
    LOCKSTEP_PJRT_ARGS(PJRT_Client_DmaMap_Args, args);
    args.client = client;
    args.data = memory;
    args.size = bytes;
    try {
      check(api, api->PJRT_Client_DmaMap(&args), "pinning host memory");
    } catch (const Error& error) {
      refused = true;
      munmap(memory, bytes);
      logging::info("{}; arrays are copied to and from devices by way of the plugin's own memory",
                    error.what());
      return nullptr;
    }
    all.push_back({memory, bytes, true});
    held += bytes;
    return memory;
  }

  void unpin(const Block& block) {
    LOCKSTEP_PJRT_ARGS(PJRT_Client_DmaUnmap_Args, args);
    args.client = client;
    args.data = block.address;
    ignore(api, api->PJRT_Client_DmaUnmap(&args));
  }

  /// Frees what is not used until there is room for more bytes.
  bool make_room(std::size_t bytes) {
    while (held + bytes > limit) {
      const auto free = std::ranges::find(all, false, &Block::taken);
      if (free == all.end()) return false;
      unpin(*free);
      munmap(free->address, free->bytes);
      held -= free->bytes;
      all.erase(free);
    }
    return true;
  }

  void give_back(void* address) {
    std::lock_guard lock(mutex);
    const auto block = std::ranges::find(all, address, &Block::address);
    block->taken = false;
    if (client != nullptr) return;
    munmap(block->address, block->bytes);
    all.erase(block);
  }
};

PinnedMemory::PinnedMemory(const PJRT_Api* api, PJRT_Client* client, std::size_t limit)
    : api_(api), blocks_(std::make_shared<Blocks>()) {
  blocks_->api = api;
  blocks_->client = client;
  blocks_->limit = limit;
}

PinnedMemory::~PinnedMemory() {
  std::unique_lock lock(blocks_->mutex);
  // What a device that hangs does not read in this time, it never will.
  blocks_->read.wait_for(lock, std::chrono::seconds(1), [&] { return blocks_->being_read == 0; });
  for (const Blocks::Block& block : blocks_->all) {
    blocks_->unpin(block);
    if (!block.taken) munmap(block.address, block.bytes);
  }
  std::erase_if(blocks_->all, [](const Blocks::Block& block) { return !block.taken; });
  blocks_->client = nullptr;
}

std::shared_ptr<void> PinnedMemory::take(std::size_t bytes) {
  const std::size_t rounded = pieces_in(bytes) * kPiece;
  std::lock_guard lock(blocks_->mutex);
  void* memory = blocks_->take_free(rounded);
  if (memory == nullptr && !blocks_->refused && blocks_->make_room(rounded)) memory = blocks_->make(rounded);
  if (memory == nullptr) return nullptr;
  return {memory, [blocks = blocks_](void* address) { blocks->give_back(address); }};
}

std::shared_ptr<void> PinnedMemory::copy_of(const void* data, std::size_t bytes) {
  const std::shared_ptr<void> memory = take(bytes);
  if (memory == nullptr) return nullptr;
  for_each_piece(bytes, threads_for(pieces_in(bytes)), [&](std::size_t, std::size_t at, std::size_t size) {
    std::memcpy(static_cast<char*>(memory.get()) + at, static_cast<const char*>(data) + at, size);
  });
  {
    std::lock_guard lock(blocks_->mutex);
    ++blocks_->being_read;
  }
  return {memory.get(), [memory, blocks = blocks_](void*) {
            std::lock_guard lock(blocks->mutex);
            --blocks->being_read;
            blocks->read.notify_all();
          }};
}

bool PinnedMemory::to_host(PJRT_Buffer* buffer, void* destination, std::size_t bytes) {
  // A thread more than cores: it waits for the bus while others copy.
  const std::size_t threads = std::min(pieces_in(bytes), threads_for(kMostThreads) + 1);
  const std::shared_ptr<void> memory = take(threads * kPiece);
  if (memory == nullptr) return false;
  for_each_piece(bytes, threads, [&](std::size_t thread, std::size_t at, std::size_t size) {
    char* const place = static_cast<char*>(memory.get()) + thread * kPiece;
    LOCKSTEP_PJRT_ARGS(PJRT_Buffer_CopyRawToHost_Args, args);
    args.buffer = buffer;
    args.dst = place;
    args.offset = static_cast<std::int64_t>(at);
    args.transfer_size = static_cast<std::int64_t>(size);
    check(api_, api_->PJRT_Buffer_CopyRawToHost(&args), "copying an array to the host");
    await_and_destroy(api_, args.event, "computing or copying an array");
    std::memcpy(static_cast<char*>(destination) + at, place, size);
  });
  return true;
}

}  // namespace lockstep::pjrt
