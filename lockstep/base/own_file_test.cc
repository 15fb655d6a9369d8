// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/own_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "lockstep/testing/other_users.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::AsUser;
using ::testing::HasSubstr;
using testing::kOtherUser;
using testing::kOwnUser;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int mode_of(const fs::path& path) {
  struct stat found {};
  return lstat(path.c_str(), &found) == 0 ? static_cast<int>(found.st_mode & 07777) : -1;
}

class Umask {
 public:
  explicit Umask(mode_t mask) : before_(umask(mask)) {}
  ~Umask() { umask(before_); }

 private:
  const mode_t before_;
};

TEST(OwnFile, UnderAnyUmask_NewFilesAreForThisUserOnly) {
  for (const mode_t mask : {0, 002, 022, 077}) {
    const testing::TemporaryFolder folder;
    const Umask set(mask);
    const fs::path made = folder.path() / "a" / "b";
    EXPECT_EQ(make_own_folders(made), "");
    EXPECT_EQ(write_own_file(made / "file", "words"), "");
    EXPECT_EQ(read(made / "file"), "words");
    EXPECT_EQ(mode_of(folder.path() / "a"), 0700);
    EXPECT_EQ(mode_of(made), 0700);
    EXPECT_EQ(mode_of(made / "file"), 0600);
    EXPECT_EQ(write_own_file(made / "readable", "words", kReadableFile), "");
    EXPECT_EQ(mode_of(made / "readable"), static_cast<int>(0644 & ~mask));
  }
}

TEST(OwnFile, AnExistingFile_IsReplacedOrAppendedTo) {
  const testing::TemporaryFolder folder;
  const fs::path path = folder.path() / "file";
  EXPECT_EQ(write_own_file(path, "many words"), "");
  EXPECT_EQ(write_own_file(path, "few"), "");
  EXPECT_EQ(read(path), "few");
  OwnFile file = open_own_file(path, O_APPEND);
  EXPECT_EQ(write_all(file.file.get(), " more"), 0);
  EXPECT_EQ(read(path), "few more");
}

TEST(OwnFile, LinksOfThisUser_AreFollowed) {
  const testing::TemporaryFolder folder;
  fs::create_directory(folder.path() / "there");
  fs::create_directory_symlink("there", folder.path() / "here");
  fs::create_symlink("there/new", folder.path() / "link");
  EXPECT_EQ(make_own_folders(folder.path() / "here" / "more"), "");
  EXPECT_EQ(write_own_file(folder.path() / "here" / "more" / "file", "words"), "");
  EXPECT_EQ(write_own_file(folder.path() / "link", "words"), "");
  EXPECT_EQ(read(folder.path() / "there" / "more" / "file"), "words");
  EXPECT_EQ(read(folder.path() / "there" / "new"), "words");
  EXPECT_EQ(write_own_file("/dev/null", "words"), "");
  EXPECT_EQ(write_own_file("/dev/full", "words"), "No space left on device");
  const FileDescriptor open(::open((folder.path() / "there" / "new").c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(write_own_file("/proc/self/fd/" + std::to_string(open.get()), "other words"), "");
  EXPECT_EQ(read(folder.path() / "there" / "new"), "other words");
}

TEST(OwnFile, ThatCannotBeOpened_GivesTheReason) {
  const testing::TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder.path() / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(open_own_file(folder.path() / "fifo", O_NONBLOCK).why_not, "nobody reads from it");
  EXPECT_EQ(open_own_file(folder.path(), 0).why_not, "Is a directory");
  EXPECT_EQ(open_own_file(folder.path() / "none" / "file", 0).why_not, "No such file or directory");
  EXPECT_EQ(make_own_folders(folder.path() / "fifo" / "below"), "Not a directory");
  EXPECT_EQ(make_own_folders(folder.path() / "fifo"), "Not a directory");
}

TEST(OwnFile, FilesOfAnotherUser_AreNotWrittenTo) {
  testing::for_planted_files("file", [](const testing::PlantedFile& planted, const fs::path& path) {
    const std::string why = write_own_file(path, "words");
    EXPECT_THAT(why, HasSubstr(planted.words));
    EXPECT_EQ(why.empty(), planted.words.empty()) << why;
  });
}

TEST(OwnFile, ANewFolder_IsEmptyAndForThisUserOnly_EvenIfTheNameIsTaken) {
  testing::for_planted_files("folder", [](const testing::PlantedFile& planted, const fs::path& path) {
    const NewFolder made = make_new_folder(path);
    EXPECT_EQ(made.why_not, "");
    EXPECT_EQ(mode_of(made.path), 0700);
    EXPECT_TRUE(fs::is_empty(made.path));
    EXPECT_EQ(made.path == path, planted.words.empty());
    EXPECT_THAT(made.path, ::testing::StartsWith(path.string()));
  });
}

TEST(OwnFile, AFolderThatIsALinkOfAnotherUser_IsNotEntered) {
  if (!testing::can_be_other_users()) return;
  const testing::TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms(0755));
  const fs::path shared = folder.path() / "shared", home = folder.path() / "home";
  for (const fs::path& each : {shared, home}) fs::create_directory(each);
  fs::permissions(shared, fs::perms(01777));
  ASSERT_EQ(chown(home.c_str(), kOwnUser, kOwnUser), 0);
  {
    const AsUser user(kOtherUser);
    fs::create_directory_symlink(home, shared / "logs");
    fs::create_directory_symlink(home / "new", shared / "reports");
  }
  const AsUser user(kOwnUser);
  EXPECT_THAT(write_own_file(shared / "logs" / "file", "words"), HasSubstr("the link"));
  EXPECT_THAT(make_own_folders(shared / "logs" / "more"), HasSubstr("the link"));
  EXPECT_THAT(make_own_folders(shared / "reports"), HasSubstr("the link"));
  EXPECT_TRUE(fs::is_empty(home));
}

TEST(OwnFile, AFileOfThisUserWithASecondNameInASharedFolder_IsNotWrittenTo) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder.path() / "own") << "mine";
  fs::create_directory(folder.path() / "shared");
  fs::create_hard_link(folder.path() / "own", folder.path() / "shared" / "file");
  fs::permissions(folder.path() / "shared", fs::perms(01777));
  EXPECT_THAT(write_own_file(folder.path() / "shared" / "file", "words"), HasSubstr("another name"));
  EXPECT_EQ(read(folder.path() / "own"), "mine");
  fs::permissions(folder.path() / "shared", fs::perms(0755));
  EXPECT_EQ(write_own_file(folder.path() / "shared" / "file", "words"), "");
}

}  // namespace
}  // namespace lockstep
