// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/open_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/storage/store.h"
#include "lockstep/storage/test_urls.h"
#include "lockstep/testing/child.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::storage {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

constexpr rlim_t kLimit = 64;
constexpr int kFiles = 500;

void limit_descriptors(rlim_t soft, rlim_t hard) {
  const rlimit limit{soft, hard};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// Files of one line each, with their numbers.
struct Files {
  Files() {
    for (int i = 0; i < kFiles; ++i) {
      std::ofstream(path(i)) << "file " << i;
      readers.push_back(open_file(path(i)));
    }
  }
  std::string path(int i) const { return folder.path() / std::to_string(i); }
  bool reads(int i) const {
    return read_whole(*readers[static_cast<std::size_t>(i)]) == "file " + std::to_string(i);
  }

  testing::TemporaryFolder folder;
  std::vector<std::unique_ptr<Reader>> readers;
};

LOCKSTEP_CHILD(reads_more_files_than_it_may_open) {
  limit_descriptors(kLimit, kLimit);
  Files files;
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&files, t] {
      std::mt19937 random(t);
      for (int k = 0; k < 2000; ++k) EXPECT_TRUE(files.reads(static_cast<int>(random() % kFiles)));
    });
  }
  threads.clear();
  // Others need descriptors, too: sockets, plugins, checkpoints.
  EXPECT_LE(open_descriptors(), kLimit / 2 + 16);

  std::filesystem::rename(files.path(1), files.path(0));  // the older one is surely closed
  for (int i = 2; i < kFiles; ++i) EXPECT_TRUE(files.reads(i));
  EXPECT_THAT(error_of<StorageError>([&] { read_whole(*files.readers[0]); }),
              HasSubstr("has been replaced since it was opened"));
  EXPECT_THAT(error_of<StorageError>([&] { read_whole(*files.readers[1]); }), HasSubstr("No such file"));
}

LOCKSTEP_CHILD(raises_its_soft_limit) {
  limit_descriptors(kLimit, 4 * kLimit);
  Files files;
  for (int i = 0; i < kFiles; ++i) EXPECT_TRUE(files.reads(i));
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(limit.rlim_cur, 4 * kLimit);
  EXPECT_GT(open_descriptors(), kLimit);
}

LOCKSTEP_CHILD(has_no_descriptor_left) {
  limit_descriptors(kLimit, kLimit);
  Files files;
  // Whatever else takes all descriptors: a file that is opened takes the place of an idle one.
  std::vector<std::unique_ptr<OpenFile>> others;
  const std::string path = files.path(7);
  EXPECT_THAT(error_of<StorageError>([&] {
                for (;;) others.push_back(std::make_unique<OpenFile>(path, 0, "open"));
              }),
              HasSubstr("raise the limit of open files"));
  EXPECT_GT(others.size(), kLimit / 2 + 8);
  others.pop_back();
  EXPECT_TRUE(files.reads(3));
}

TEST(OpenFiles, MoreThanTheLimit_AreAllRead) {
  for (const char* child :
       {"reads_more_files_than_it_may_open", "raises_its_soft_limit", "has_no_descriptor_left"}) {
    const auto results = testing::run_processes({.child = child});
    EXPECT_EQ(results[0].exit_code, 0) << child << ": " << results[0].log;
  }
}

TEST(OpenFiles, LongAndUnprintableNames_AreShortenedAndEscapedInErrors) {
  expect_refused("open_file", {{std::string(65536, 'p'), "File name too long"}, {"a\xff\x1b", "a\\xff\\x1b"}},
                 [](const std::string& url) { open_file(url); });
}

}  // namespace
}  // namespace lockstep::storage
