// SPDX-License-Identifier: Apache-2.0
#include "lockstep/lapack/lapack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "lockstep/testing/other_users.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::lapack {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Lapack, UsesTheAllowedThreads_AndKeepsTheEnvironment) {
  const bool given = std::getenv("OPENBLAS_NUM_THREADS") != nullptr,
             core = std::getenv("OPENBLAS_CORETYPE") != nullptr;
  limit_threads(1);
  ASSERT_TRUE(is_available()) << description();
  EXPECT_THAT(description(), HasSubstr("OpenBLAS"));
  if (!given) {
    EXPECT_THAT(description(), HasSubstr("; 1 threads"));
  }
  EXPECT_EQ(std::getenv("OPENBLAS_NUM_THREADS") != nullptr, given);
  EXPECT_EQ(std::getenv("OPENBLAS_CORETYPE") != nullptr, core);
#if defined(__x86_64__)
  // Not those of 2004, where the processor has others.
  if (!core && __builtin_cpu_supports("avx2")) {
    EXPECT_THAT(description(), Not(AnyOf(HasSubstr("kernels of Prescott"), HasSubstr("kernels of Core2"))));
  }
#endif
}

LOCKSTEP_CHILD(loads_openblas) {
  EXPECT_TRUE(is_available()) << description();
  EXPECT_THAT(description(), HasSubstr("OpenBLAS"));
}

TEST(Lapack, AnUntrustedLibrary_IsSkippedWithAWarning) {
  const testing::TemporaryFolder folder;
  const std::string reason = testing::write_untrusted(folder.path() / "libopenblas.so.0", "planted");
  const auto result = testing::run_processes(
      {.child = "loads_openblas", .env = {{"LD_LIBRARY_PATH", folder.path()}, {"LOCKSTEP_TRUST", ""}}})[0];
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, HasSubstr("libopenblas.so.0 is not used: " + reason));
}

}  // namespace
}  // namespace lockstep::lapack
