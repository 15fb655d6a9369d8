// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "lockstep/storage/store.h"
#include "lockstep/storage/test_store.h"
#include "lockstep/storage/test_urls.h"
#include "lockstep/testing/errors.h"

namespace lockstep::storage {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

TEST(Urls, InvalidOnes_AreRefusedByEveryFunction) {
  expect_refused("locate", bad_urls(), [](const std::string& url) { locate(url); });
  expect_refused("local_path", bad_urls(), [](const std::string& url) { local_path(url); });
  expect_refused("local_path", object_urls(), [](const std::string& url) { local_path(url); });
  expect_refused("open_store", bad_urls(), [](const std::string& url) { open_store(url, /*make=*/true); });
  expect_refused("open_file", bad_urls(), [](const std::string& url) { open_file(url); });
  expect_refused("split_url", bad_urls(), [](const std::string& url) { split_url(url); });
  expect_refused("open_file", {{"s3://bucket", "is a bucket"}, {"s3://bucket//", "is a bucket"}},
                 [](const std::string& url) { open_file(url); });
  expect_refused("open_store", {{"s3://bucket/a//b", "a part of it is \"\""}},
                 [](const std::string& url) { open_store(url); });
  std::vector<BadUrl> nameless;
  for (const char* url :
       {"s3://bucket", "s3://bucket/", "/", "//", "file:///", ".", "..", "a/..", "/a/.", "../", "file:/"})
    nameless.push_back({url, "does not end in a name"});
  expect_refused("split_url", nameless, [](const std::string& url) { split_url(url); });
}

TEST(Urls, ValidOnes_AreParsedIntoPathOrBucketAndKey) {
  struct Case {
    std::string url, path, bucket, key;
  };
  for (const Case& c : std::vector<Case>{{"run", "run", "", ""},
                                         {"./gs://bucket/run", "./gs://bucket/run", "", ""},
                                         {"/a/gs://b", "/a/gs://b", "", ""},
                                         {"model:latest", "model:latest", "", ""},
                                         {"12:30/run", "12:30/run", "", ""},
                                         {"../run", "../run", "", ""},
                                         {"\xff", "\xff", "", ""},
                                         {"a b%20c?d#e", "a b%20c?d#e", "", ""},
                                         {"file:///tmp/a%20b", "/tmp/a%20b", "", ""},
                                         {"FILE:///tmp", "/tmp", "", ""},
                                         {"file:/tmp", "/tmp", "", ""},
                                         {"file://localhost/tmp/x", "/tmp/x", "", ""},
                                         {"file://LocalHost/tmp", "/tmp", "", ""},
                                         {"s3://bucket", "", "bucket", ""},
                                         {"S3://my.bucket-1/", "", "my.bucket-1", ""},
                                         {"s3://bucket/a/b//", "", "bucket", "a/b"},
                                         {"s3://bucket//a", "", "bucket", "/a"},
                                         {"s3://bucket/..a/b.", "", "bucket", "..a/b."},
                                         {"s3://bucket/h\xc3\xa9", "", "bucket", "h\xc3\xa9"}}) {
    SCOPED_TRACE(c.url);
    const Location place = locate(c.url);
    EXPECT_EQ(place.is_object, !c.bucket.empty());
    EXPECT_EQ(place.scheme, c.bucket.empty() ? "" : "s3");
    EXPECT_EQ(place.path, c.path);
    EXPECT_EQ(place.bucket, c.bucket);
    EXPECT_EQ(place.key, c.key);
  }
}

TEST(Urls, AreSplitIntoFolderAndName) {
  using Parts = std::pair<std::string, std::string>;
  EXPECT_EQ(split_url("run"), Parts(".", "run"));
  EXPECT_EQ(split_url("/run//"), Parts("/", "run"));
  EXPECT_EQ(split_url("a/b/run/"), Parts("a/b", "run"));
  EXPECT_EQ(split_url("file:///run"), Parts("/", "run"));
  EXPECT_EQ(split_url("file://localhost/a/run"), Parts("/a", "run"));
  EXPECT_EQ(split_url("s3://bucket/run"), Parts("s3://bucket/", "run"));
  EXPECT_EQ(split_url("S3://bucket/a/run/"), Parts("s3://bucket/a", "run"));
  EXPECT_EQ(split_url("./gs:/run"), Parts("./gs:", "run"));
}

TEST(Urls, FileUrlsAndPaths_OpenTheFile) {
  testing::TemporaryFolder folder;
  const std::string path = folder.path() / "a\xff";
  std::ofstream(path) << "x";
  for (const std::string& url : {path, "file://" + path, "file:" + path, "File://localhost" + path})
    EXPECT_EQ(read_whole(*open_file(url)), "x") << printable(url);
  const auto store = open_store("file://localhost" + (folder.path() / "new").string(), /*make=*/true);
  EXPECT_EQ(store->url("a"), (folder.path() / "new/a").string());
}

TEST(Urls, AreShownInPrintableText) {
  EXPECT_EQ(printable("a b\xc3\xa9"), "a b\xc3\xa9");
  EXPECT_EQ(printable("\x1b[2J\n\x7f\xc2\x9b\xff\xc3"), "\\x1b[2J\\n\\x7f\\u009b\\xff\\xc3");
  // Overlong forms, a surrogate, a number that is too large.
  EXPECT_EQ(printable("\xc0\x80\xe0\x80\x80\xed\xa0\x80\xf5\x80\x80\x80"),
            "\\xc0\\x80\\xe0\\x80\\x80\\xed\\xa0\\x80\\xf5\\x80\\x80\\x80");
  EXPECT_THAT(printable(std::string(65536, 'p')), HasSubstr("ppp... (65536 bytes)"));
  EXPECT_LE(printable(std::string(65536, '\xff')).size(), 300u);
}

}  // namespace
}  // namespace lockstep::storage
