// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "cli/testing/tool.h"
#include "lockstep/testing/process_logs.h"
#include "lockstep/testing/temporary_folder.h"

// The lines of SECURITY.md that set up certificates, as they stand there.

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

LOCKSTEP_CHILD(joins_with_certificates) {
  auto client = join();
  client->barrier("all", std::chrono::minutes(1));
  client->shutdown();
  testing::say("left");
}

TEST(SecurityPage, TlsCommands_StartAJob) {
  const std::string page =
      testing::read_file(std::filesystem::path(LOCKSTEP_RECIPES) / ".." / ".." / "SECURITY.md");
  const std::size_t begin = page.find("```sh\n"),
                    run = page.find("lockstep run -n 2 --encrypt -- ./train\n```", begin);
  ASSERT_NE(run, std::string::npos) << "SECURITY.md has no such block";
  const testing::TemporaryFolder folder;
  std::string script =
      "set -e\ncd " + folder.path().string() + "\n" + page.substr(begin + 6, run - begin - 6);
  script += "exec \"$0\" run -n 2 --encrypt -- \"$@\"\n";
  const auto done =
      testing::run_processes({.program = "/bin/sh",
                              .arguments = Words{"-c", script, LOCKSTEP_TOOL} +
                                           testing::command_of_child("joins_with_certificates")})[0];
  EXPECT_EQ(done.exit_code, 0) << done.log;
  EXPECT_THAT(done.log, AllOf(HasSubstr("[0] left"), HasSubstr("[1] left")));
}

}  // namespace
}  // namespace lockstep::cli
