// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/allocator.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

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

long page_faults_of_a_fresh_block(std::size_t bytes) {
  rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  void* block = nullptr;
  EXPECT_EQ(posix_memalign(&block, 64, bytes), 0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0u);
  std::memset(block, 1, bytes);
  asm volatile("" : : "r"(block) : "memory");
  getrusage(RUSAGE_SELF, &after);
  std::free(block);
  return after.ru_minflt - before.ru_minflt;
}

TEST(TuneAllocator, MakesLargeBlocksOfHugePages) {
  std::string setting;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), setting);
  if (!tune_allocator(false).huge_pages) GTEST_SKIP() << "not in this build";
  if (setting.empty() || setting.find("[never]") != std::string::npos)
    GTEST_SKIP() << "huge pages: " << setting;
  EXPECT_LT(page_faults_of_a_fresh_block(kBytes), 2000);
  EXPECT_FALSE(
      tune_allocator(false, MapEnvironment(std::map<std::string, std::string>{{"LOCKSTEP_HUGE_PAGES", "0"}}))
          .huge_pages);
  if (setting.find("[madvise]") != std::string::npos) {
    EXPECT_GT(page_faults_of_a_fresh_block(kBytes), 10'000);
  }
  EXPECT_TRUE(tune_allocator(false, MapEnvironment(std::map<std::string, std::string>{})).huge_pages);
}

TEST(TuneAllocator, KeepsTheContractOfPosixMemalign) {
  void* block = nullptr;
  if (tune_allocator(false).huge_pages) {  // A sanitizer ends the process.
    EXPECT_EQ(posix_memalign(&block, 3, 8), EINVAL);
    EXPECT_EQ(posix_memalign(&block, 24, 8), EINVAL);
  }
  for (std::size_t alignment : {8, 64, 4096, 4 << 20}) {
    for (std::size_t bytes : {0, 1, 1000, 5 << 20, 40 << 20}) {
      ASSERT_EQ(posix_memalign(&block, alignment, bytes), 0);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0u);
      std::memset(block, 7, bytes);
      std::free(block);
    }
  }
}

TEST(TuneAllocator, IsFoundByLibrariesThatAreOpenedLater) {
  if (!tune_allocator(false).huge_pages) GTEST_SKIP() << "not in this build";
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "posix_memalign"), reinterpret_cast<void*>(&posix_memalign));
  Dl_info info{};
  ASSERT_NE(dladdr(dlsym(RTLD_DEFAULT, "posix_memalign"), &info), 0);
  EXPECT_THAT(info.dli_fname, ::testing::Not(::testing::HasSubstr("libc.so")));
}

/// In a process of its own, as the arena stays.
LOCKSTEP_CHILD(takes_large_blocks_from_its_arena) {
  ASSERT_TRUE(tune_allocator(true).shares);
  const Arena* arena = process_arena();
  ASSERT_NE(arena, nullptr);
  for (std::size_t alignment : {64, 4096, 1 << 20}) {
    for (std::size_t bytes : {1 << 20, 5 << 20, 40 << 20}) {
      void* block = nullptr;
      ASSERT_EQ(posix_memalign(&block, alignment, bytes), 0);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0U);
      EXPECT_GE(arena->offset_of(block, bytes), 0);
      EXPECT_GE(malloc_usable_size(block), bytes);
      std::memset(block, 3, bytes);
      block = std::realloc(block, bytes / 2);
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(arena->offset_of(block, 1), -1);
      EXPECT_EQ(static_cast<char*>(block)[bytes / 2 - 1], 3);
      std::free(block);
    }
  }
  void* small = nullptr;
  ASSERT_EQ(posix_memalign(&small, 64, 1000), 0);
  EXPECT_FALSE(arena->owns(small));
  std::free(small);
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "free"), reinterpret_cast<void*>(&std::free));
}

TEST(TuneAllocator, WhereTheProcessShares_LargeBlocksAreOfItsArena) {
  if (!tune_allocator(false).huge_pages) GTEST_SKIP() << "not in this build";
  for (const auto& result :
       testing::run_processes({.count = 1, .child = "takes_large_blocks_from_its_arena"}))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}

TEST(TuneAllocator, WhereTheEnvironmentSaysSo_SharesNothing) {
  EXPECT_FALSE(tune_allocator(
                   true, MapEnvironment(std::map<std::string, std::string>{{"LOCKSTEP_SHARED_BLOCKS", "0"}}))
                   .shares);
}

}  // namespace
}  // namespace lockstep::collectives
