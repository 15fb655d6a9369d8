// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/collectives/ucx.h"
#include "lockstep/testing/other_users.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::collectives {
namespace {

LOCKSTEP_CHILD(loads_ucx) { EXPECT_NE(UcxLibrary::get().ucp_init_version, nullptr); }

TEST(UcxLibrary, ThatIsNotTrusted_IsSkippedWithAWarning) {
  const testing::TemporaryFolder folder;
  const std::string reason = testing::write_untrusted(folder.path() / "libucp.so.0", "planted");
  const auto result = testing::run_processes(
      {.child = "loads_ucx", .env = {{"LD_LIBRARY_PATH", folder.path()}, {"LOCKSTEP_TRUST", ""}}})[0];
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, ::testing::HasSubstr("libucp.so.0 is not used: " + reason));
}

}  // namespace
}  // namespace lockstep::collectives
