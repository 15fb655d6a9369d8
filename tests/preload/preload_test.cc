// SPDX-License-Identifier: Apache-2.0
// Programs whose user has chosen another allocator, by LD_PRELOAD.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lockstep/lockstep.h>

#include <cstdlib>
#include <filesystem>

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

void expect_to_compute_with(const std::string& allocator) {
  for (const char* huge_pages : {"1", "0"}) {
    const auto results =
        run_processes({.count = 1,
                       .child = "computes_with_arrays_of_all_sizes",
                       .env = {{"LD_PRELOAD", allocator}, {"LOCKSTEP_HUGE_PAGES", huge_pages}}});
    EXPECT_EQ(results[0].exit_code, 0) << "signal " << results[0].signal << ": " << results[0].log;
  }
}

TEST(Preload, AllocatorGetsBackWhatItHasMade) { expect_to_compute_with(LOCKSTEP_STANDIN_MALLOC); }

class InstalledAllocator : public ::testing::TestWithParam<const char*> {};

TEST_P(InstalledAllocator, Works) {
  const std::filesystem::path library = std::filesystem::path(LOCKSTEP_SYSTEM_LIBRARIES) / GetParam();
  if (!exists(library)) GTEST_SKIP() << library << " is not installed";
  expect_to_compute_with(library);
}

INSTANTIATE_TEST_SUITE_P(Preload, InstalledAllocator,
                         ::testing::Values("libjemalloc.so.2", "libtcmalloc_minimal.so.4"),
                         [](const auto& info) { return info.index == 0 ? "jemalloc" : "tcmalloc"; });

}  // namespace
}  // namespace lockstep
