// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>

#include "lockstep/collectives/segment.h"
#include "lockstep/testing/processes.h"

namespace lockstep::collectives {
namespace {

constexpr std::size_t kMiB = 1 << 20;

/// The bytes of memory that the file takes.
std::size_t resident(const Arena& arena) {
  struct stat status {};
  EXPECT_EQ(fstat(arena.descriptor_to_read().get(), &status), 0);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

TEST(Arena, AView_ReadsBlocksInPlace) {
  Arena arena(64 * kMiB);
  ArenaView view(arena.descriptor_to_read());
  ASSERT_TRUE(view.is_readable());
  auto* block = static_cast<std::byte*>(arena.allocate(3 * kMiB));
  ASSERT_NE(block, nullptr);
  std::memset(block, 0x5a, 3 * kMiB);
  const std::int64_t at = arena.offset_of(block, 3 * kMiB);
  ASSERT_GE(at, 0);
  const std::byte* seen = view.read(static_cast<std::size_t>(at), 3 * kMiB);
  EXPECT_EQ(std::memcmp(seen, block, 3 * kMiB), 0);
  block[17] = std::byte{1};
  EXPECT_EQ(seen[17], std::byte{1});
  EXPECT_EQ(ArenaView(arena).read(static_cast<std::size_t>(at), 3 * kMiB), block);
  arena.free(block);
}

TEST(Arena, RecognizesItsOwnBlocks) {
  Arena arena(64 * kMiB);
  auto* block = static_cast<std::byte*>(arena.allocate(kMiB));
  int other = 0;
  EXPECT_TRUE(arena.owns(block));
  EXPECT_FALSE(arena.owns(&other));
  EXPECT_FALSE(arena.owns(nullptr));
  EXPECT_EQ(arena.offset_of(&other, 1), -1);
  EXPECT_GE(arena.offset_of(block + kMiB - 1, 1), 0);
  EXPECT_EQ(arena.offset_of(block, 65 * kMiB), -1) << "it ends beyond the arena";
  EXPECT_GE(arena.size_of_block(block), kMiB);
  arena.free(block);
}

TEST(Arena, WhenFull_AllocatesNothing_UntilBlocksAreFreed) {
  Arena arena(8 * kMiB, 16 * kMiB);
  void* all = arena.allocate(8 * kMiB);
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(arena.allocate(1), nullptr);
  EXPECT_EQ(arena.allocate(9 * kMiB), nullptr);
  arena.free(all);
  void* half = arena.allocate(4 * kMiB);
  ASSERT_NE(half, nullptr);
  arena.free(half);
  EXPECT_NE(all = arena.allocate(8 * kMiB), nullptr) << "free ranges with and without pages are one again";
  arena.free(all);
}

TEST(Arena, KeepsPagesOfFreedBlocksUpToItsBound) {
  Arena arena(256 * kMiB, 16 * kMiB, /*huge_pages=*/false);
  auto take = [&](std::size_t bytes) {
    void* block = arena.allocate(bytes);
    std::memset(block, 1, bytes);
    return block;
  };
  void *first = take(12 * kMiB), *second = take(12 * kMiB);
  EXPECT_GE(resident(arena), 24 * kMiB);
  arena.free(first);
  EXPECT_GE(resident(arena), 24 * kMiB) << "kept for the next one";
  arena.free(second);
  EXPECT_LE(resident(arena), 13 * kMiB) << "that would be more than the bound";
  EXPECT_EQ(arena.allocate(12 * kMiB), first) << "pages that are there are used first";
}

TEST(Arena, BlocksNeverOverlap) {
  Arena arena(128 * kMiB, 8 * kMiB, false);
  std::mt19937 engine(1);
  std::map<std::byte*, std::pair<std::size_t, std::byte>> taken;
  for (int i = 0; i < 3000; ++i) {
    if (engine() % 2 == 0 && !taken.empty()) {
      auto block = std::next(taken.begin(), static_cast<std::ptrdiff_t>(engine() % taken.size()));
      const auto [bytes, mark] = block->second;
      EXPECT_EQ(block->first[0], mark);
      EXPECT_EQ(block->first[bytes - 1], mark);
      arena.free(block->first);
      taken.erase(block);
      continue;
    }
    const std::size_t bytes = 1 + engine() % (i % 3 == 0 ? 6 * kMiB : 20'000),
                      alignment = std::size_t{64} << engine() % 16;
    auto* block = static_cast<std::byte*>(arena.allocate(bytes, alignment));
    if (block == nullptr) continue;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0U);
    const auto next = taken.lower_bound(block);
    if (next != taken.end()) {
      EXPECT_LE(block + bytes, next->first);
    }
    if (next != taken.begin()) {
      EXPECT_LE(std::prev(next)->first + std::prev(next)->second.first, block);
    }
    const auto mark = static_cast<std::byte>(engine());
    block[0] = block[bytes - 1] = mark;
    taken.emplace(block, std::pair(bytes, mark));
  }
  for (const auto& [block, what] : taken) arena.free(block);
  EXPECT_NE(arena.allocate(128 * kMiB), nullptr) << "all of it is free again";
}

/// Its memory is not the child's: nothing that the child frees is taken from the parent.
TEST(Arena, AbandonedInAForkedChild_FreesNothing) {
  Arena arena(64 * kMiB, 0);
  auto* block = static_cast<std::byte*>(arena.allocate(2 * kMiB));
  std::memset(block, 7, 2 * kMiB);
  const pid_t child = fork();
  if (child == 0) {
    arena.abandon();
    arena.free(block);
    _exit(arena.allocate(kMiB) == nullptr ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(block[kMiB], std::byte{7});
  arena.free(block);
}

TEST(ArenaView, WithoutAnArena_IsNotReadable) {
  EXPECT_FALSE(ArenaView(FileDescriptor()).is_readable());
  EXPECT_FALSE(ArenaView().is_readable());
}

TEST(Arena, WhereMemoryIsCountedStrictly_ABlockHasItsPagesBeforeItIsWritten) {
  Arena counts(256 * kMiB, 0, /*huge_pages=*/false, /*reserve=*/true), usual(256 * kMiB, 0, false, false);
  EXPECT_NE(counts.allocate(16 * kMiB), nullptr);
  EXPECT_NE(usual.allocate(16 * kMiB), nullptr);
  EXPECT_GE(resident(counts), 16 * kMiB);
  EXPECT_EQ(resident(usual), 0U);
}

/// Larger than the machine's memory and all limits.
constexpr std::size_t kHuge = std::size_t{1} << 40;

/// The arena and a view of it, both of which something walks.
struct Both {
  Arena arena{kHuge, 0, false};
  ArenaView view{arena.descriptor_to_read()};
  void* block = arena.allocate(4 * kMiB);

  Both() {
    EXPECT_TRUE(view.is_readable());
    std::memset(block, 1, 4 * kMiB);
    const std::int64_t at = arena.offset_of(block, 4 * kMiB);
    EXPECT_EQ(view.read(static_cast<std::size_t>(at), 4 * kMiB)[17], std::byte{1});
  }
};

LOCKSTEP_CHILD(locks_its_memory) {
  const Both both;
  const int locked = mlockall(MCL_CURRENT);
  EXPECT_TRUE(locked == 0 || errno == EPERM || errno == ENOMEM) << std::strerror(errno);
  EXPECT_LT(resident(both.arena), 256 * kMiB);
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // They take more address space themselves.
TEST(Arena, InAProcessThatLocksItsMemory_IsNotAllocatedWhole) {
  const auto results = testing::run_processes({.count = 1, .child = "locks_its_memory"});
  EXPECT_EQ(results[0].exit_code, 0) << results[0].log;
}

LOCKSTEP_CHILD(aborts_and_dumps_core) {
  const rlimit all{RLIM_INFINITY, RLIM_INFINITY};
  EXPECT_EQ(setrlimit(RLIMIT_CORE, &all), 0);
  const Both both;
  const auto segment = Segment::create(100);
  std::ifstream areas("/proc/self/smaps");
  std::size_t dumped = 0, kilobytes = 0;
  for (std::string line; std::getline(areas, line);) {
    if (line.starts_with("Size:")) kilobytes = std::stoull(line.substr(5));
    // "dd": do not dump.
    if (line.starts_with("VmFlags:") && line.find(" dd") == line.npos) dumped += kilobytes;
  }
  EXPECT_LT(dumped, std::size_t{64} << 20) << "kilobytes";
  std::abort();
}

TEST(Arena, IsNotWrittenToCoreFiles) {
  testing::Processes processes({.count = 1, .child = "aborts_and_dumps_core"});
  const testing::ProcessResult result = processes.wait(0);
  EXPECT_EQ(result.signal, SIGABRT) << result.log;
  EXPECT_EQ(result.log.find("Failure"), std::string::npos) << result.log;
  // Where the system writes core files into the working folder.
  for (const auto& file : std::filesystem::directory_iterator(processes.folder(0))) {
    if (file.path().filename().native().starts_with("core")) {
      EXPECT_LT(file.file_size(), 100 * kMiB) << file.path();
    }
  }
}
#endif

}  // namespace
}  // namespace lockstep::collectives
