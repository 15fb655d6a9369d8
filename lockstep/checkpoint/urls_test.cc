// SPDX-License-Identifier: Apache-2.0
// Every function that takes a path or URL of a checkpoint, with all that names no place.
#include <gtest/gtest.h>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/checkpointer.h"
#include "lockstep/checkpoint/export.h"
#include "lockstep/ops/ops.h"
#include "lockstep/storage/test_urls.h"

namespace lockstep::checkpoint {
namespace {

TEST(CheckpointUrls, InvalidOnes_AreRefusedByEveryFunction) {
  const testing::TemporaryFolder folder;
  const std::string saved = folder.path() / "saved";
  const Array array = ones({4});
  save(saved, array);
  const std::vector<std::pair<std::string, std::function<void(const std::string&)>>> functions = {
      {"save", [&](const std::string& url) { save(url, array); }},
      {"restore", [&](const std::string& url) { restore(url, array); }},
      {"restore_numbers", [](const std::string& url) { restore_numbers(url); }},
      {"Checkpointer", [](const std::string& url) { Checkpointer checkpointer(url); }},
      {"export_hf", [&](const std::string& url) { export_hf(url, array); }},
      {"export_checkpoint", [](const std::string& url) { export_checkpoint(url, "there"); }},
      {"export_checkpoint to", [&](const std::string& url) { export_checkpoint(saved, url); }}};
  for (const auto& [name, use] : functions) storage::expect_refused(name, storage::bad_urls(), use);
  for (const auto& [name, use] : functions) {
    if (name.find("restore") != name.npos || name == "Checkpointer" || name == "export_checkpoint") continue;
    // A checkpoint and an export need a name of their own, in a bucket too.
    if (name != "export_hf") storage::expect_refused(name, {{"s3://bucket", "s3://bucket/name"}}, use);
    storage::expect_refused(name, {{"/", "a name"}, {"..", "a name"}}, use);
    EXPECT_THROW(use("/"), CheckpointError) << name;
  }
}

TEST(CheckpointUrls, FileUrls_AreSavedToAndRead) {
  const testing::TemporaryFolder folder;
  const std::string url = "file://localhost" + (folder.path() / "run").string();
  save(url + "/one", full({4}, 2.0));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "run/one/manifest.json"));
  EXPECT_EQ(restore(url + "/one", ones({4})).to_host<float>(), std::vector<float>(4, 2));
}

}  // namespace
}  // namespace lockstep::checkpoint
