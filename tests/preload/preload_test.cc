// SPDX-License-Identifier: Apache-2.0
// Programs whose user has chosen another allocator, by LD_PRELOAD.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lockstep/lockstep.h>

#include <cstdlib>
#include <filesystem>

#include "lockstep/collectives/allocator.h"
#include "lockstep/testing/processes.h"

namespace lockstep {
namespace {

using testing::ProcessResult;
using testing::run_processes;

/// Arrays of all sizes, large ones too, made and freed by XLA and by the program.
LOCKSTEP_CHILD(computes_with_arrays_of_all_sizes) {
  initialize();
  auto twice = jit([](Array x) { return x + x; });
  for (std::int64_t n :
       {std::int64_t{1}, std::int64_t{1} << 10, std::int64_t{2} << 20, std::int64_t{10} << 20}) {
    for (int round = 0; round < 2; ++round) {
      const std::vector<float> doubles = twice(ones({n})).to_host<float>();
      EXPECT_EQ(doubles, std::vector<float>(static_cast<std::size_t>(n), 2));
    }
  }
}

LOCKSTEP_CHILD(shares_its_results) {
  initialize();
  const Array x = jit([](Array y) { return y + y; })(ones({std::int64_t{1} << 20}));
  x.block_until_ready();
  const collectives::Arena* const arena = collectives::process_arena();
  ASSERT_NE(arena, nullptr);
  EXPECT_TRUE(arena->owns(x.addressable_shards()[0].data));
  const std::vector<char> own(4 << 20);
  EXPECT_FALSE(arena->owns(own.data()));
}

/// Expects that two processes on a host share results: the other one reads them in place.
void expect_shared_results(const testing::Variables& environment) {
  for (const auto& result :
       run_processes({.count = 2, .child = "shares_its_results", .env = environment, .coordinator = true}))
    EXPECT_EQ(result.exit_code, 0) << "signal " << result.signal << ": " << result.log;
}

TEST(SharedResults, AreInTheArena_AndTheProgramsOwnBlocksAreNot) { expect_shared_results({}); }

void expect_to_compute_with(const std::string& allocator) {
  for (const char* huge_pages : {"1", "0"}) {
    const auto results =
        run_processes({.count = 1,
                       .child = "computes_with_arrays_of_all_sizes",
                       .env = {{"LD_PRELOAD", allocator}, {"LOCKSTEP_HUGE_PAGES", huge_pages}}});
    EXPECT_EQ(results[0].exit_code, 0) << "signal " << results[0].signal << ": " << results[0].log;
  }
  expect_shared_results({{"LD_PRELOAD", allocator}});
}

TEST(Preload, APreloadedAllocator_FreesItsOwnBlocks) { expect_to_compute_with(LOCKSTEP_STANDIN_MALLOC); }

class InstalledAllocator : public ::testing::TestWithParam<const char*> {};

TEST_P(InstalledAllocator, WhenPreloaded_ComputesWithArraysOfAllSizes) {
  const std::filesystem::path library = std::filesystem::path(LOCKSTEP_SYSTEM_LIBRARIES) / GetParam();
  if (!exists(library)) GTEST_SKIP() << library << " is not installed";
  expect_to_compute_with(library);
}

INSTANTIATE_TEST_SUITE_P(Preload, InstalledAllocator,
                         ::testing::Values("libjemalloc.so.2", "libtcmalloc_minimal.so.4"),
                         [](const auto& info) { return info.index == 0 ? "jemalloc" : "tcmalloc"; });

}  // namespace
}  // namespace lockstep
