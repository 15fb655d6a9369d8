// SPDX-License-Identifier: Apache-2.0
// Every function that takes a path or URL, with paths and URLs that name no place.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include "lockstep/data/csv.h"
#include "lockstep/data/lines.h"
#include "lockstep/data/mds.h"
#include "lockstep/data/npy.h"
#include "lockstep/data/parquet.h"
#include "lockstep/data/tar.h"
#include "lockstep/data/test_files.h"
#include "lockstep/data/text.h"
#include "lockstep/data/tfrecord.h"
#include "lockstep/data/tokens.h"
#include "lockstep/storage/test_urls.h"

namespace lockstep::data {
namespace {

using Use = std::function<void(const std::string& url)>;

std::map<std::string, Use> readers() {
  return {{"lines", [](const std::string& url) { lines(url); }},
          {"jsonl", [](const std::string& url) { jsonl(url); }},
          {"tfrecord", [](const std::string& url) { tfrecord(url); }},
          {"tfrecord_examples", [](const std::string& url) { tfrecord_examples(url); }},
          {"tar", [](const std::string& url) { tar(url); }},
          {"mds", [](const std::string& url) { mds(url); }},
          {"npy",
           [](const std::string& url) {
             npy({{"x", url}});
           }},
          {"tokens_u16", [](const std::string& url) { tokens_u16(url); }},
          {"tokens_u32", [](const std::string& url) { tokens_u32(url); }},
          {"tokens_llm_c", [](const std::string& url) { tokens_llm_c(url); }},
          {"tokens_megatron", [](const std::string& url) { tokens_megatron(url); }},
          {"parquet", [](const std::string& url) { parquet(url); }},
          {"read_csv", [](const std::string& url) { read_csv(url); }},
          {"read_text", [](const std::string& url) { read_text(url); }}};
}

TEST(DataUrls, InvalidUrls_AreRefusedByAllReaders) {
  for (const auto& [name, use] : readers()) {
    storage::expect_refused(name, storage::bad_urls(), use);
    storage::expect_refused(
        name, {{std::string(65536, 'p'), "File name too long"}, {"a\xff\x1b", "a\\xff\\x1b"}}, use);
  }
  for (const auto& [name, use] : readers()) {
    if (name == "mds" || name == "tokens_megatron") continue;  // They add a name to it.
    storage::expect_refused(name, {{"s3://bucket", "is a bucket"}, {"S3://bucket/", "is a bucket"}}, use);
  }
}

TEST(DataUrls, FoldersOfIndexes_MustBeInAFileSystem) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() / "a.txt";
  test::write_file(path, "one\n");
  const std::map<std::string, Use> users = {
      {"lines", [&](const std::string& url) { lines(path, {.folder = url}); }},
      {"filter",
       [&](const std::string& url) {
         filter(in_memory({}), "all", [](const Record&) { return true; }, {.folder = url});
       }},
      {"pack", [&](const std::string& url) { pack(in_memory({}), "x", {.length = 1}, {.folder = url}); }}};
  for (const auto& [name, use] : users)
    storage::expect_refused(name + " with a folder", storage::bad_optional_folders(), use);
  storage::expect_refused("LOCKSTEP_DATA_CACHE",
                          {{"gs://bucket/cache", "not supported"}, {"s3://bucket/c", "in an object store"}},
                          [](const std::string& url) {
                            setenv("LOCKSTEP_DATA_CACHE", url.c_str(), 1);
                            pack(in_memory({}), "x", {.length = 1});
                          });
  unsetenv("LOCKSTEP_DATA_CACHE");
  EXPECT_EQ(lines(path, {.folder = "file://localhost" + (folder.path() / "indexes").string()})->size(), 1u);
  EXPECT_FALSE(std::filesystem::is_empty(folder.path() / "indexes"));
}

TEST(DataUrls, FileUrls_AreRead) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() / "a b.txt";
  test::write_file(path, "1,2\n");
  for (const char* prefix : {"", "file://", "file://localhost", "FILE:"}) {
    EXPECT_EQ(read_csv(prefix + path).columns, 2);
    EXPECT_EQ(lines(prefix + path)->size(), 1u);
  }
  // One index, beside the file.
  EXPECT_TRUE(std::filesystem::exists(path + ".lines.index"));
}

}  // namespace
}  // namespace lockstep::data
