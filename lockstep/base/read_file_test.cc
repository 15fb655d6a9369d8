// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/read_file.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>

#include "lockstep/testing/temporary_folder.h"

namespace lockstep {
namespace {

TEST(ReadFile, GivesAllBytes_OrWhatIsWrong) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() / "file", bytes(200'000, '\0');
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(read_file(path).bytes, bytes);
  EXPECT_EQ(read_file(path).error, 0);
  EXPECT_FALSE(read_file("/proc/self/stat").bytes.empty());
  EXPECT_EQ(read_file(path + "s").error, ENOENT);
  EXPECT_EQ(read_file(folder.path()).error, EISDIR);
}

}  // namespace
}  // namespace lockstep
