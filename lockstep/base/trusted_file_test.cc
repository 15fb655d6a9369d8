// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/trusted_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/testing/other_users.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::AsUser;
using ::testing::ElementsAre;
using testing::GivenFile;
using ::testing::HasSubstr;
using testing::kOtherUser;
using testing::kOwnUser;
using testing::kSharedGroup;
using ::testing::ThrowsMessage;

/// LOCKSTEP_TRUST, for a while.
class Trusting {
 public:
  explicit Trusting(const char* names) { setenv("LOCKSTEP_TRUST", names, 1); }
  ~Trusting() { unsetenv("LOCKSTEP_TRUST"); }
};

TEST(TrustedFile, EachKindOfFile_IsOpenedOnlyIfTrusted) {
  int good = 0;
  testing::for_given_files("file", "text", [&](const GivenFile& given, const fs::path& path) {
    const TrustedFile file = open_trusted_file(path);
    EXPECT_EQ(static_cast<bool>(file), given.words == "good") << file.why_not;
    if (file) {
      EXPECT_EQ(read_all(file, 4), "text");
      EXPECT_EQ(file.why_not, "");
      ++good;
    } else if (given.words == "missing") {
      EXPECT_EQ(file.why_not, "");
    } else {
      EXPECT_THAT(file.why_not, HasSubstr(given.words));
    }
  });
  EXPECT_GE(good, 3);
}

TEST(TrustedFile, AReason_NamesTheFolderItsOwnerAndWhatToDo) {
  if (!testing::can_be_other_users()) return;
  const testing::TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms(0755));
  const std::string other = folder.path() / "other";
  fs::create_directory(other);
  std::ofstream(other + "/file") << "text";
  ASSERT_EQ(chown(other.c_str(), kOtherUser, kOtherUser), 0);
  const AsUser own(kOwnUser);
  EXPECT_EQ(open_trusted_file(other + "/file").why_not,
            "the folder " + other +
                " belongs to user uid 61002, and not to uid 61001 or root: use one of your own, or set "
                "LOCKSTEP_TRUST=61002 if you trust that user");
}

TEST(TrustedFile, LockstepTrust_AddsUsersAndGroups) {
  if (!testing::can_be_other_users()) return;
  const testing::TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms(0755));
  const std::string others = folder.path() / "others", group = folder.path() / "group";
  std::ofstream(others) << "text";
  std::ofstream(group) << "text";
  ASSERT_EQ(chown(others.c_str(), kOtherUser, kOtherUser), 0);
  ASSERT_EQ(chown(group.c_str(), kOwnUser, kSharedGroup), 0);
  ASSERT_EQ(chmod(group.c_str(), 0664), 0);
  const AsUser own(kOwnUser);
  const auto both = [&] {
    return std::pair(static_cast<bool>(open_trusted_file(others)),
                     static_cast<bool>(open_trusted_file(group)));
  };
  EXPECT_EQ(both(), std::pair(false, false));
  for (const auto& [names, first, second] :
       std::vector<std::tuple<const char*, bool, bool>>{{"61002", true, false},
                                                        {"group:61003", false, true},
                                                        {"root,61002,group:61003", true, true},
                                                        {"group:daemon", false, false},
                                                        {"everyone", true, true}}) {
    const Trusting trusting(names);
    EXPECT_EQ(both(), std::pair(first, second)) << names;
  }
  const Trusting unknown("no-such-user");
  EXPECT_THAT(open_trusted_file(others).why_not, HasSubstr("LOCKSTEP_TRUST names the user 'no-such-user'"));
}

TEST(TrustedFile, SparseTebibyte_IsRefusedBeforeMemoryIsAllocated) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() / "sparse";
  std::ofstream(path) << "text";
  ASSERT_EQ(truncate(path.c_str(), 1LL << 40), 0);
  const TrustedFile file = open_trusted_file(path);
  ASSERT_TRUE(file);
  EXPECT_THAT([&] { read_all(file, 1 << 30); },
              ThrowsMessage<Error>(HasSubstr("it has 1099511627776 bytes, expected at most 1073741824")));
}

LOCKSTEP_CHILD(reads_more_than_the_memory) {
  const rlimit limit{1 << 30, 1 << 30};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  std::ofstream("sparse") << "text";
  ASSERT_EQ(truncate("sparse", 1LL << 40), 0);
  const TrustedFile file = open_trusted_file("sparse");
  EXPECT_THAT([&] { read_all(file, INT64_MAX); },
              ThrowsMessage<Error>(HasSubstr("there is no memory for its 1099511627776 bytes")));
}

TEST(TrustedFile, LargerThanTheMemory_IsAnError) {
  const auto result = testing::run_processes({.child = "reads_more_than_the_memory"})[0];
  EXPECT_EQ(result.exit_code, 0) << result.log;
}

TEST(TrustedFile, RelativePathsAndDots_AreFollowedAsTheKernelDoes) {
  const testing::TemporaryFolder folder;
  fs::create_directories(folder.path() / "a" / "b");
  fs::create_directory_symlink(folder.path() / "a" / "b", folder.path() / "link");
  std::ofstream(folder.path() / "a" / "file") << "a";
  std::ofstream(folder.path() / "file") << "top";
  const fs::path before = fs::current_path();
  fs::current_path(folder.path() / "a" / "b");
  EXPECT_EQ(read_all(open_trusted_file("../file"), 9), "a");
  EXPECT_EQ(read_all(open_trusted_file("./..//.././a/file"), 9), "a");
  fs::current_path(before);
  EXPECT_EQ(read_all(open_trusted_file(folder.path() / "link" / ".." / "file"), 9), "a");
  EXPECT_FALSE(open_trusted_file(folder.path() / "file" / "below"));
  EXPECT_FALSE(open_trusted_file("/"));
  EXPECT_FALSE(open_trusted_file(""));
  EXPECT_TRUE(open_trusted_file("/proc/self/exe")) << open_trusted_file("/proc/self/exe").why_not;
}

TEST(TrustedFolder, ThatDoesNotExist_IsJudgedByTheNearestFolderAbove) {
  const testing::NoTrust none;
  const testing::TemporaryFolder folder;
  const fs::path open = folder.path() / "open";
  EXPECT_EQ(distrust_folder(folder.path() / "none" / "below" / "it"), "");
  fs::create_directory(open);
  fs::permissions(open, fs::perms(0777));
  EXPECT_THAT(distrust_folder(open / "none" / "below"),
              AllOf(HasSubstr("the folder " + open.string()), HasSubstr("mode is 0777")));
  std::ofstream(folder.path() / "file") << "";
  EXPECT_THAT(distrust_folder(folder.path() / "file"), HasSubstr("is not a folder"));
}

TEST(FirstTrusted, SkipsRefusedFiles_AndSaysWhy) {
  const testing::NoTrust none;
  const testing::TemporaryFolder folder;
  const std::string bad = folder.path() / "bad", good = folder.path() / "good";
  std::ofstream(bad) << "text";
  std::ofstream(good) << "text";
  fs::permissions(bad, fs::perms(0666));
  const TrustedPath found = first_trusted({"", "/nowhere", bad, good, bad});
  EXPECT_EQ(found.path, good);
  EXPECT_THAT(found.refused, ElementsAre(HasSubstr(bad + " is not used: " + bad + " can be written by")));
}

}  // namespace
}  // namespace lockstep
