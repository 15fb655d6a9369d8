// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/proportional_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "lockstep/watch/proc_state.h"

namespace lockstep::watch {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

TEST(ProportionalMemory, APageMappedByTwoProcesses_CountsHalf) {
  if (!read_proportional_bytes(getpid())) GTEST_SKIP() << "this kernel reports no proportional memory";
  constexpr std::size_t kShared = 64 * kMiB;
  void* const shared = mmap(nullptr, kShared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  std::memset(shared, 1, kShared);
  int ready[2], over[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(over), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(over[1]);
    char byte = 0;
    for (std::size_t at = 0; at < kShared; at += 4096) byte += static_cast<volatile char*>(shared)[at];
    if (write(ready[1], &byte, 1) != 1 || read(over[0], &byte, 1) < 0) _exit(1);
    _exit(0);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ProportionalMemory memory;
  const ProcessState state = read_process_state(getpid());
  const std::uint64_t together = memory.look(getpid(), state.rss_bytes);
  EXPECT_GE(state.rss_bytes, kShared);
  EXPECT_LE(together, state.rss_bytes - kShared / 2 + 4 * kMiB);
  close(over[1]);
  waitpid(child, nullptr, 0);
  ProportionalMemory again;
  EXPECT_GE(again.look(getpid(), read_process_state(getpid()).rss_bytes), together + kShared / 2 - 4 * kMiB)
      << "the other one has ended";
  for (const int end : {ready[0], ready[1], over[0]}) close(end);
  munmap(shared, kShared);
}

TEST(ProportionalMemory, IsReadAHundredthOfTheTime_AndEstimatedInBetween) {
  ManualClock clock;
  int reads = 0;
  ProportionalMemory memory(
      [&](int) {
        ++reads;
        clock.advance(std::chrono::milliseconds(50));
        return 300 * kMiB;
      },
      clock);
  EXPECT_EQ(memory.look(7, 1000 * kMiB), 300 * kMiB);
  clock.advance(std::chrono::milliseconds(4990));
  EXPECT_EQ(memory.look(7, 1100 * kMiB), 400 * kMiB) << "it has grown";
  EXPECT_EQ(memory.look(7, 100 * kMiB), 0u);
  EXPECT_EQ(reads, 1);
  clock.advance(std::chrono::milliseconds(10));
  EXPECT_EQ(memory.look(7, 900 * kMiB), 300 * kMiB);
  EXPECT_EQ(reads, 2);
  EXPECT_EQ(memory.look(8, 800 * kMiB), 300 * kMiB) << "another process";
  EXPECT_EQ(reads, 3);
}

TEST(ProportionalMemory, IfUnknown_IsTheResidentMemory) {
  ProportionalMemory memory([](int) { return std::nullopt; });
  EXPECT_EQ(memory.look(7, 1000 * kMiB), 1000 * kMiB);
  EXPECT_FALSE(read_proportional_bytes(0));
}

}  // namespace
}  // namespace lockstep::watch
