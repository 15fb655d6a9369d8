// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/allocator.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>

#include "lockstep/testing/processes.h"

namespace lockstep::collectives {
namespace {

constexpr std::size_t kBytes = 64 << 20;

/// testdata/library_that_allocates.cxx
struct Library {
  explicit Library(const char* path = LIBRARY_THAT_ALLOCATES) : handle(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    EXPECT_NE(handle, nullptr) << dlerror();
    find(make, "make_block");
    find(error, "error_of_block");
    find(free, "free_block");
    find(free_by_address, "free_block_by_address");
    find(change, "change_block");
    find(size, "size_of_block");
  }
  template <class Function>
  void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(dlsym(handle, name));
    EXPECT_NE(function, nullptr) << name;
  }

  void* handle;
  void* (*make)(std::size_t alignment, std::size_t bytes);
  int (*error)(std::size_t alignment, std::size_t bytes);
  void (*free)(void*);
  void (*free_by_address)(void*);
  void* (*change)(void*, std::size_t bytes);
  std::size_t (*size)(void*);
};

MapEnvironment with(const std::string& name, const std::string& value) {
  return MapEnvironment(std::map<std::string, std::string>{{name, value}});
}

long page_faults_of_a_fresh_block(const Library& library, std::size_t bytes) {
  rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  void* block = library.make(64, bytes);
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0u);
  std::memset(block, 1, bytes);
  asm volatile("" : : "r"(block) : "memory");
  getrusage(RUSAGE_SELF, &after);
  library.free(block);
  return after.ru_minflt - before.ru_minflt;
}

TEST(TuneAllocator, LargeBlocks_UseHugePages) {
  std::string setting;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), setting);
  const Library library;
  ASSERT_TRUE(tune_allocator(library.handle, LargeBlocks::kAsBefore, 0, MapEnvironment({})).huge_pages);
  if (setting.empty() || setting.find("[never]") != std::string::npos)
    GTEST_SKIP() << "huge pages: " << setting;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's allocator";
#endif
  EXPECT_LT(page_faults_of_a_fresh_block(library, kBytes), 2000);
  EXPECT_FALSE(
      tune_allocator(library.handle, LargeBlocks::kAsBefore, 0, with("LOCKSTEP_HUGE_PAGES", "0")).huge_pages);
  if (setting.find("[madvise]") != std::string::npos) {
    EXPECT_GT(page_faults_of_a_fresh_block(library, kBytes), 10'000);
  }
  EXPECT_TRUE(tune_allocator(library.handle, LargeBlocks::kAsBefore, 0, MapEnvironment({})).huge_pages);
}

TEST(TuneAllocator, KeepsTheContractOfPosixMemalign) {
  const Library library;
  ASSERT_TRUE(tune_allocator(library.handle, LargeBlocks::kAsBefore).huge_pages);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // They end the process.
  EXPECT_EQ(library.error(3, 8), EINVAL);
  EXPECT_EQ(library.error(24, 8), EINVAL);
#endif
  for (std::size_t alignment : {8, 64, 4096, 4 << 20}) {
    for (std::size_t bytes : {0, 1, 1000, 5 << 20, 40 << 20}) {
      void* block = library.make(alignment, bytes);
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0u);
      std::memset(block, 7, bytes);
      std::free(block);
    }
  }
}

TEST(TuneAllocator, ALibraryThatAllocatesNothing_ChangesNothing) {
  void* const maths = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(maths, nullptr);
  const AllocatorTuning tuning = tune_allocator(maths, LargeBlocks::kShared);
  EXPECT_FALSE(tuning.huge_pages);
  EXPECT_EQ(tuning.from, LargeBlocks::kAsBefore);
}

/// In a process of its own, as the arena stays.
LOCKSTEP_CHILD(serves_a_library_from_its_arena) {
  const Library library;
  ASSERT_EQ(tune_allocator(library.handle, LargeBlocks::kShared).from, LargeBlocks::kShared);
  const Arena* arena = process_arena();
  ASSERT_NE(arena, nullptr);
  for (std::size_t alignment : {64, 4096, 1 << 20}) {
    for (std::size_t bytes : {8 << 10, 1 << 20, 5 << 20, 40 << 20}) {
      void* block = library.make(alignment, bytes);
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0U);
      EXPECT_GE(arena->offset_of(block, bytes), 0);
      EXPECT_GE(library.size(block), bytes);
      std::memset(block, 3, bytes);
      block = library.change(block, bytes / 2);
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(arena->offset_of(block, 1), -1);
      EXPECT_EQ(static_cast<char*>(block)[bytes / 2 - 1], 3);
      library.free(block);
      library.free_by_address(library.make(alignment, bytes));
    }
  }
  const void* const first = library.make(64, 2 << 20);
  EXPECT_TRUE(arena->owns(first));
  void* small = library.make(64, (8 << 10) - 1);
  EXPECT_FALSE(arena->owns(small));
  library.free(small);
  library.free(std::malloc(5 << 20));
}

TEST(TuneAllocator, IfTheProcessShares_LargeBlocksComeFromItsArena) {
  for (const auto& result : testing::run_processes({.count = 1, .child = "serves_a_library_from_its_arena"}))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}

LOCKSTEP_CHILD(keeps_its_own_allocator) {
  const Library library;
  ASSERT_EQ(tune_allocator(library.handle, LargeBlocks::kShared).from, LargeBlocks::kShared);
  void* block = nullptr;
  ASSERT_EQ(posix_memalign(&block, 4096, 4 << 20), 0);
  EXPECT_FALSE(process_arena()->owns(block));
  std::memset(block, 7, 4 << 20);
  const pid_t child = fork();
  if (child == 0) {
    block = std::realloc(block, 8 << 20);
    _exit(static_cast<char*>(block)[(4 << 20) - 1] == 7 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  std::free(block);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  for (const char* name : {"posix_memalign", "free", "realloc", "malloc_usable_size"}) {
    Dl_info info{};
    ASSERT_NE(dladdr(dlsym(RTLD_DEFAULT, name), &info), 0);
    EXPECT_THAT(info.dli_fname, ::testing::HasSubstr("libc.so")) << name;
  }
#endif
}

TEST(TuneAllocator, LeavesTheProgramsBlocksAlone_AlsoInAForkedChild) {
  for (const auto& result : testing::run_processes({.count = 1, .child = "keeps_its_own_allocator"}))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}

LOCKSTEP_CHILD(shares_nothing) {
  const Library library;
  const auto off = with("LOCKSTEP_SHARED_BLOCKS", "0");
  EXPECT_EQ(tune_allocator(library.handle, LargeBlocks::kShared, 1 << 20, off).from, LargeBlocks::kKept);
  EXPECT_EQ(process_arena(), nullptr);
}

TEST(TuneAllocator, WithSharedBlocksTurnedOff_KeepsFreedBlocksForItself) {
  for (const auto& result : testing::run_processes({.count = 1, .child = "shares_nothing"}))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}

LOCKSTEP_CHILD(keeps_freed_blocks) {
  const Library library;
  ASSERT_EQ(tune_allocator(library.handle, LargeBlocks::kKept, 2 * kBytes).from, LargeBlocks::kKept);
  EXPECT_EQ(process_arena(), nullptr) << "no one else may read it";
  page_faults_of_a_fresh_block(library, kBytes);
  EXPECT_LT(page_faults_of_a_fresh_block(library, kBytes), 10);

  auto* const block = static_cast<char*>(library.make(64, kBytes));
  std::memset(block, 7, kBytes);
  const pid_t child = fork();
  if (child == 0) {
    const bool reads = block[kBytes - 1] == 7;
    std::memset(block, 8, kBytes);
    library.free(block);
    void* const another = library.make(64, kBytes);
    std::memset(another, 9, kBytes);
    library.free(another);
    _exit(reads ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(block[kBytes - 1], 7);

  // Of another job in the same process, with others on the host.
  ASSERT_EQ(tune_allocator(library.handle, LargeBlocks::kShared).from, LargeBlocks::kShared);
  void* const shared = library.make(64, kBytes);
  EXPECT_TRUE(process_arena()->owns(shared));
  EXPECT_FALSE(process_arena()->owns(block));
  library.free(block);
  library.free(shared);
}

TEST(TuneAllocator, OfAProcessAlone_KeepsFreedBlocks_AndForkedChildrenReadThem) {
  for (const auto& result : testing::run_processes({.count = 1, .child = "keeps_freed_blocks"}))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}

LOCKSTEP_CHILD(keeps_nothing) {
  const Library library;
  EXPECT_EQ(tune_allocator(library.handle, LargeBlocks::kKept, 0).from, LargeBlocks::kAsBefore);
#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // They take more address space themselves.
  const rlimit limit{std::size_t{64} << 30, std::size_t{64} << 30};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  EXPECT_EQ(tune_allocator(library.handle, LargeBlocks::kKept).from, LargeBlocks::kAsBefore);
#endif
}

TEST(TuneAllocator, WithNothingToKeepOrLimitedAddressSpace_LeavesTheBlocksWhereTheyWere) {
  for (const auto& result : testing::run_processes({.count = 1, .child = "keeps_nothing"}))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}

}  // namespace
}  // namespace lockstep::collectives
