// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "lockstep/base/error.h"
#include "lockstep/base/memory_file.h"

namespace lockstep {
namespace {

/// Lowers a limit until its end.
class Lowered {
 public:
  Lowered(decltype(RLIMIT_NOFILE) resource, rlim_t value) : resource_(resource) {
    getrlimit(resource_, &before_);
    const rlimit lowered{value, before_.rlim_max};
    setrlimit(resource_, &lowered);
  }
  ~Lowered() { setrlimit(resource_, &before_); }

 private:
  decltype(RLIMIT_NOFILE) resource_;
  rlimit before_{};
};

TEST(Limits, DescribeError_NamesTheLimitThatMayBeTheCause) {
  const Lowered files(RLIMIT_NOFILE, 512), size(RLIMIT_FSIZE, 8 << 20);
  EXPECT_EQ(describe_error(EMFILE), "Too many open files (ulimit -n: 512)");
  EXPECT_EQ(describe_error(EFBIG), "File too large (ulimit -f: 8192 KiB)");
  EXPECT_EQ(describe_error(ENOENT), "No such file or directory");
}

TEST(Limits, Require_ThrowsOnlyIfThreadsOrMemoryAreNotAvailable) {
  EXPECT_NO_THROW(require_threads(8, "this test"));
  EXPECT_NO_THROW(require_address_space(1, "this test"));
  EXPECT_THROW(require_address_space(std::size_t{1} << 30, "this test"), Error);  // 2^50 bytes
}

TEST(MemoryFile, LargerThanUlimitF_FailsWithoutASignal) {
  const Lowered size(RLIMIT_FSIZE, 4096);
  EXPECT_EQ(make_memory_file("test", 4097), -1);
  EXPECT_EQ(errno, EFBIG);
  const int file = make_memory_file("test", 4096);
  struct stat status {};
  ASSERT_EQ(fstat(file, &status), 0);
  EXPECT_EQ(status.st_size, 4096);
  close(file);
}

TEST(MemoryFile, WhereMemoryIsCountedStrictly_HasItsPagesBeforeItIsWritten) {
  constexpr std::size_t kBytes = 4 << 20;
  const auto taken = [](bool reserve) {
    const int file = make_reserved_memory_file("test", kBytes, 0, reserve);
    struct stat status {};
    EXPECT_EQ(fstat(file, &status), 0);
    close(file);
    return static_cast<std::size_t>(status.st_blocks) * 512;
  };
  EXPECT_EQ(taken(false), 0u);
  EXPECT_GE(taken(true), kBytes);
}

}  // namespace
}  // namespace lockstep
