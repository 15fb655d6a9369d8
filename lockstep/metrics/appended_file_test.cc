// SPDX-License-Identifier: Apache-2.0
#include "lockstep/metrics/appended_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/testing/other_users.h"

namespace lockstep::metrics {
namespace {

namespace fs = std::filesystem;

TEST(AppendedFile, FilesOfAnotherUser_AreNotWrittenTo) {
  testing::for_planted_files("metrics", [](const testing::PlantedFile& planted, const fs::path& path) {
    try {
      AppendedFile(path, true).append("words\n");
      EXPECT_EQ(planted.words, "");
      EXPECT_EQ(fs::file_size(path), 6u);
      EXPECT_EQ(fs::status(path).permissions(), fs::perms(0644));
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(planted.words));
      EXPECT_NE(planted.words, "") << error.what();
    }
  });
}

TEST(AppendedFile, WithoutAUmask_OthersCannotWriteToTheFolder) {
  testing::for_planted_files("runs", [](const testing::PlantedFile& planted, const fs::path& path) {
    if (!planted.words.empty()) return;
    AppendedFile(path / "one" / "metrics", true).append("words\n");
    EXPECT_EQ(fs::status(path).permissions(), fs::perms(0755));
    EXPECT_EQ(fs::status(path / "one").permissions(), fs::perms(0755));
  });
}

}  // namespace
}  // namespace lockstep::metrics
