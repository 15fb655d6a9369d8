// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/storage/url.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::storage {

/// A path or URL that a user may give by mistake, and a part of what the error says.
struct BadUrl {
  std::string url, expected;
};

/// Refused wherever a path or URL is taken.
inline std::vector<BadUrl> bad_urls() {
  using namespace std::string_literals;
  std::vector<BadUrl> all = {{"", "an empty text"},
                             {"s3:", "not the URL of an object store"},
                             {"s3:/", "not the URL of an object store"},
                             {"s3:/bucket/run", "not the URL of an object store"},
                             {"s3:bucket/run", "not the URL of an object store"},
                             {"S3:/bucket/run", "not the URL of an object store"},
                             {"s3://", "not the name of a bucket"},
                             {"s3:///run", "not the name of a bucket"},
                             {"s3://b", "not the name of a bucket"},
                             {"s3://a bucket/run", "not the name of a bucket"},
                             {"s3://b%20c/run", "not the name of a bucket"},
                             {"s3://bucket:9000/run", "not the name of a bucket"},
                             {"s3://key:secret@bucket/run", "not the name of a bucket"},
                             {"s3://bucket\x1b[2J/run", "bucket\\x1b[2J"},
                             {"s3://bucket/..", "a part of its key is \"..\""},
                             {"s3://bucket/../other/run", "a part of its key is \"..\""},
                             {"s3://bucket/a/./run", "a part of its key is \".\""},
                             {"s3://bucket/run\xff", "run\\xff\" has a key that is not UTF-8"},
                             {"s3://bucket/\xed\xa0\x80", "\\xed\\xa0\\x80\" has a key that is not UTF-8"},
                             {"s3://bucket/" + std::string(1025, 'k'), "a key of 1025 bytes"},
                             {"s3://bucket/" + std::string(65536, 'k'), "a key of 65536 bytes"},
                             {"s3://bucket/a\0b"s, "a\\x00b\" contains a NUL byte"},
                             {"a\0b"s, "\"a\\x00b\" contains a NUL byte"},
                             {"/tmp/a\0"s, "a\\x00\" contains a NUL byte"},
                             {"file:", "has no path"},
                             {"file://", "has no path"},
                             {"file:run", "has no path"},
                             {"file://localhost", "has no path"},
                             {"file://run", "of the host 'run'"},
                             {"file://host/run", "of the host 'host'"},
                             {"FILE://127.0.0.1/run", "of the host '127.0.0.1'"}};
  for (const char* scheme :
       {"gs",  "GS",  "gcs", "az",  "abfs", "abfss", "wasb", "hdfs", "viewfs", "http", "https",
        "ftp", "s3a", "s3n", "oss", "cos",  "r2",    "hf",   "tcp",  "memory", "x",    "a+b-c.9"}) {
    for (const char* rest : {"://", "://bucket", "://bucket/run", ":///run", ":/bucket/run"})
      all.push_back({std::string(scheme) + rest, "which is not supported"});
  }
  return all;
}

/// Refused in addition where a file or folder must be in a file system.
inline std::vector<BadUrl> object_urls() {
  return {{"s3://bucket", "in an object store"},
          {"s3://bucket/run", "in an object store"},
          {"S3://bucket/run", "in an object store"}};
}

/// Refused where an optional folder must be in a file system; an empty text stands for the default.
inline std::vector<BadUrl> bad_optional_folders() {
  std::vector<BadUrl> all = bad_urls();
  std::erase_if(all, [](const BadUrl& each) { return each.url.empty(); });
  for (const BadUrl& each : object_urls()) all.push_back(each);
  return all;
}

/// Calls `use` with each URL in an empty folder. It must throw an error of Lockstep's that says what is
/// wrong, in printable text of a bearable length, and leave the folder empty.
inline void expect_refused(const std::string& function, const std::vector<BadUrl>& urls,
                           const std::function<void(const std::string& url)>& use) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  for (const auto& [url, expected] : urls) {
    SCOPED_TRACE(function + "(\"" + printable(url) + "\")");
    try {
      use(url);
      ADD_FAILURE() << "it is not refused";
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(expected), text.npos) << text;
      EXPECT_LT(text.size(), 1500u) << text;
      EXPECT_TRUE(
          std::ranges::all_of(text, [](unsigned char c) { return (c >= 0x20 && c < 0x7f) || c == '\n'; }))
          << "not printable: " << text;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "it threw another error than Lockstep's: " << error.what();
    }
    if (!std::filesystem::is_empty(folder.path())) {
      ADD_FAILURE() << "it has made " << std::filesystem::directory_iterator(folder.path())->path();
      break;
    }
  }
  std::filesystem::current_path(before);
}

}  // namespace lockstep::storage
