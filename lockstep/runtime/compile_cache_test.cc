// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/compile_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "lockstep/base/trusted_file.h"
#include "lockstep/runtime/compile_cache_key.h"
#include "lockstep/testing/other_users.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Optional;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const fs::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
}

class CompileCacheTest : public ::testing::Test {
 protected:
  testing::TemporaryFolder folder_;
  const std::string path_ = (folder_.path() / "kept" / "here").string();
  CompileCache cache_{{.folder = path_}};
};

TEST_F(CompileCacheTest, AStoredEntry_IsFoundByItsKey) {
  const std::string code("\0code\n", 6);
  cache_.store("key\n", code);
  EXPECT_THAT(cache_.find("key\n"), Optional(code));
  EXPECT_EQ(cache_.find("key"), std::nullopt);
  EXPECT_THAT(CompileCache({.folder = path_}).find("key\n"), Optional(code));
  EXPECT_EQ(files_in(path_), 1u);
}

TEST_F(CompileCacheTest, WithoutAFolder_NothingIsKept) {
  CompileCache none({});
  none.store("key", "code");
  EXPECT_EQ(none.find("key"), std::nullopt);
  EXPECT_FALSE(none.wants(std::chrono::seconds(10)));
}

TEST_F(CompileCacheTest, AnEntryCutShortOrChanged_IsAMissAndStoredAnew) {
  cache_.store("key", "the code");
  const std::string file = cache_.path_of("key"), whole = read(file);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write(file, whole.substr(0, size));
    EXPECT_EQ(cache_.find("key"), std::nullopt) << size;
    EXPECT_FALSE(fs::exists(file));
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    write(file, changed);
    EXPECT_EQ(cache_.find("key"), std::nullopt) << i;
  }
  cache_.store("key", "the code");
  EXPECT_THAT(cache_.find("key"), Optional(std::string("the code")));
}

TEST_F(CompileCacheTest, AnEntryOfAnotherKey_IsAMiss) {
  cache_.store("key", "code");
  cache_.store("other", "other code");
  fs::copy_file(cache_.path_of("other"), cache_.path_of("key"), fs::copy_options::overwrite_existing);
  EXPECT_EQ(cache_.find("key"), std::nullopt);
  EXPECT_THAT(cache_.find("other"), Optional(std::string("other code")));
}

TEST_F(CompileCacheTest, InvalidEntries_AreOneWarning) {
  CompileCache cache({.folder = path_});
  cache.store("a", "code");
  write(cache.path_of("a"), "something");
  write(cache.path_of("b"), "something");
  ::testing::internal::CaptureStderr();
  cache.find("a");
  cache.find("b");
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("[compilation cache] " + cache.path_of("a") +
                             " is not used: it is not an entry of this version; compiling instead."));
  EXPECT_EQ(log.find(cache.path_of("b")), log.npos);
}

TEST_F(CompileCacheTest, CodeThatCompiledFastOrIsSmall_IsNotStored) {
  CompileCache cache(
      {.folder = path_, .min_compile_time = std::chrono::duration<double>(0.5), .min_entry_size = 1000});
  EXPECT_FALSE(cache.wants(std::chrono::milliseconds(499)));
  EXPECT_TRUE(cache.wants(std::chrono::milliseconds(500)));
  cache.store("key", "small");
  EXPECT_EQ(cache.find("key"), std::nullopt);
  cache.store("key", std::string(1000, 'x'));
  EXPECT_NE(cache.find("key"), std::nullopt);
}

TEST_F(CompileCacheTest, BeyondTheMaximumSize_TheLeastRecentlyUsedIsRemoved) {
  CompileCache cache({.folder = path_, .max_size = 3500});
  auto used_ago = [&](const std::string& key, int hours) {
    fs::last_write_time(cache.path_of(key), fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  for (const char* key : {"a", "b", "c"}) cache.store(key, std::string(1000, 'x'));
  used_ago("a", 3);
  used_ago("b", 2);
  used_ago("c", 1);
  EXPECT_NE(cache.find("a"), std::nullopt);
  cache.store("d", std::string(1000, 'x'));
  EXPECT_NE(cache.find("a"), std::nullopt);
  EXPECT_EQ(cache.find("b"), std::nullopt);
  EXPECT_NE(cache.find("c"), std::nullopt);
  EXPECT_NE(cache.find("d"), std::nullopt);
  cache.store("e", std::string(4000, 'x'));
  EXPECT_EQ(cache.find("e"), std::nullopt) << "it is larger than all may be";
  EXPECT_EQ(files_in(path_), 3u);
}

TEST_F(CompileCacheTest, OldLeftoversAreRemoved_AndOtherFilesStay) {
  fs::create_directories(path_);
  const fs::path folder = path_;
  write(folder / "jit_f-0123-cache", "of another program");
  write(folder / ".lockstep-old", "half");
  write(folder / ".lockstep-new", "half");
  fs::last_write_time(folder / ".lockstep-old", fs::file_time_type::clock::now() - std::chrono::hours(2));
  CompileCache cache({.folder = path_, .max_size = 200});
  cache.store("a", std::string(100, 'x'));
  cache.store("b", std::string(100, 'x'));
  EXPECT_TRUE(fs::exists(folder / "jit_f-0123-cache"));
  EXPECT_TRUE(fs::exists(folder / ".lockstep-new"));
  EXPECT_FALSE(fs::exists(folder / ".lockstep-old"));
  EXPECT_EQ(cache.find("a"), std::nullopt);
  EXPECT_NE(cache.find("b"), std::nullopt);
}

TEST_F(CompileCacheTest, AnUnwritableFolder_GivesMissesAndAWarning) {
  const fs::path file = folder_.path() / "file";
  write(file, "not a folder");
  for (const fs::path& folder : {file, file / "below", fs::path("/proc/kept")}) {
    CompileCache cache({.folder = folder.string()});
    ::testing::internal::CaptureStderr();
    cache.store("key", "code");
    EXPECT_EQ(cache.find("key"), std::nullopt);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("[compilation cache]"));
  }
}

TEST_F(CompileCacheTest, UntrustedFiles_AreNotUsed_WithAWarning) {
  cache_.store("key", "the code");
  const fs::path entry = cache_.path_of("key");
  testing::for_given_files(
      entry.filename(), read(entry), [](const testing::GivenFile& given, const fs::path& path) {
        CompileCache cache({.folder = path.parent_path()});
        ::testing::internal::CaptureStderr();
        const std::optional<std::string> found = cache.find("key");
        cache.store("another key", "its code");
        const std::string log = ::testing::internal::GetCapturedStderr();
        const bool good = given.words == "good", missing = given.words == "missing";
        EXPECT_EQ(found, good ? std::optional<std::string>("the code") : std::nullopt);
        if (good || missing)
          EXPECT_EQ(log, "");
        else
          EXPECT_THAT(log, AllOf(HasSubstr("[compilation cache] " + path.string() + " is not used: "),
                                 HasSubstr(given.words), HasSubstr("; compiling instead")));
        const bool is_trusted = distrust_folder(path.parent_path()).empty();
        EXPECT_EQ(fs::exists(cache.path_of("another key")),
                  is_trusted && access(path.parent_path().c_str(), W_OK) == 0);
      });
}

TEST_F(CompileCacheTest, AFolderBelowAnotherUsersFolder_IsNotMade) {
  if (!testing::can_be_other_users()) return;
  fs::permissions(folder_.path(), fs::perms(0755));
  const fs::path other = folder_.path() / "other";
  fs::create_directory(other);
  fs::permissions(other, fs::perms(0777));
  ASSERT_EQ(chown(other.c_str(), testing::kOtherUser, testing::kOtherUser), 0);
  const testing::AsUser own(testing::kOwnUser);
  CompileCache cache({.folder = other / "kept"});
  ::testing::internal::CaptureStderr();
  cache.store("key", "code");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("the folder " + (other / "kept").string() + " is not used: the folder " +
                              other.string() + " belongs to user uid 61002"),
                    HasSubstr("LOCKSTEP_TRUST=61002")));
  EXPECT_TRUE(fs::is_empty(other));
}

TEST_F(CompileCacheTest, UnderAnyUmask_OnlyThisUserMayEnterTheFolder) {
  for (const mode_t mask : {0, 002, 022}) {
    const fs::path folder = folder_.path() / std::to_string(mask) / "below";
    const mode_t before = umask(mask);
    CompileCache cache({.folder = folder});
    cache.store("key", "code");
    umask(before);
    EXPECT_EQ(fs::status(folder).permissions(), fs::perms(0700));
    EXPECT_EQ(fs::status(folder.parent_path()).permissions(), fs::perms(0700));
    EXPECT_EQ(fs::status(cache.path_of("key")).permissions(), fs::perms(0644));
    EXPECT_THAT(cache.find("key"), Optional(std::string("code")));
  }
}

TEST_F(CompileCacheTest, SparseEntryOfATebibyte_IsRemovedAndWrittenAgain) {
  cache_.store("key", "code");
  fs::resize_file(cache_.path_of("key"), std::uintmax_t{1} << 40);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(cache_.find("key"), std::nullopt);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("is not used: it has 1099511627776 bytes"));
  cache_.store("key", "code");
  EXPECT_THAT(cache_.find("key"), Optional(std::string("code")));
}

LOCKSTEP_CHILD(keeps_with_no_space_left) {
  signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{1000, 1000};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  CompileCache cache({.folder = "kept"});
  cache.store("small", "code");
  cache.store("large", std::string(5000, 'x'));
  EXPECT_NE(cache.find("small"), std::nullopt);
  EXPECT_EQ(cache.find("large"), std::nullopt);
  EXPECT_EQ(files_in("kept"), 1u);
}

TEST(CompileCache, WithoutSpaceForAnEntry_NothingOfItStays) {
  const auto result = testing::run_processes({.child = "keeps_with_no_space_left"})[0];
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, HasSubstr("cannot be written: File too large; compiling instead"));
}

/// The code that every process keeps and finds: 40 entries of up to 200 KB, each made of its number.
std::string code_of(int entry) {
  return std::string(static_cast<std::size_t>(entry * 5000 + 1), 'a' + entry % 26);
}

LOCKSTEP_CHILD(keeps_and_finds_until_killed) {
  std::minstd_rand random(static_cast<unsigned>(std::random_device()()));
  CompileCache cache({.folder = testing::child_arguments()[0], .max_size = 2'000'000});
  testing::say("started");
  for (;;) {
    const int entry = static_cast<int>(random() % 40);
    const std::string key = "key " + std::to_string(entry);
    if (auto found = cache.find(key); found && *found != code_of(entry)) testing::say("wrong code");
    cache.store(key, code_of(entry));
  }
}

TEST_F(CompileCacheTest, ProcessesKilledAnywhere_LeaveWholeEntriesOnly) {
  for (int round = 0; round < 20; ++round) {
    testing::Processes writers({.count = 4, .child = "keeps_and_finds_until_killed", .arguments = {path_}});
    for (int i = 0; i < 4; ++i) writers.wait_for_line(i, "started");
    std::this_thread::sleep_for(std::chrono::milliseconds(5 + 3 * round));
    for (int i = 0; i < 4; ++i) writers.kill(i, SIGKILL);
    for (const auto& result : writers.wait()) {
      EXPECT_EQ(result.signal, SIGKILL);
      EXPECT_EQ(result.log.find("wrong code"), std::string::npos) << result.log;
      EXPECT_EQ(result.log.find("[compilation cache]"), std::string::npos) << result.log;
    }
    ::testing::internal::CaptureStderr();
    for (int entry = 0; entry < 40; ++entry) {
      auto found = cache_.find("key " + std::to_string(entry));
      EXPECT_TRUE(!found || *found == code_of(entry));
    }
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  }
}

TEST(CompileCacheKey, ProcessorFeatures_HoldModelAndFlags_NotTheClock) {
  EXPECT_EQ(
      processor_features("processor\t: 0\nmodel name\t: A 1\ncpu MHz\t\t: 2100.3\nflags\t\t: fpu avx2\n\n"
                         "processor\t: 1\nflags\t\t: none\n"),
      "model name A 1\nflags fpu avx2\n");
  EXPECT_EQ(processor_features("flags\t:\nno colon\n"), "flags \n");
}

TEST(CompileCacheKey, FileIdentity_DependsOnTheContents) {
  testing::TemporaryFolder folder;
  const fs::path path = folder.path() / "plugin.so";
  write(path, std::string(10000, 'x') + "1");
  const std::string first = file_identity(path);
  const auto time = fs::last_write_time(path);
  EXPECT_EQ(file_identity(path), first);
  write(path, std::string(10000, 'x') + "2");
  fs::last_write_time(path, time);
  EXPECT_NE(file_identity(path), first);
  EXPECT_EQ(file_identity(folder.path() / "missing"), "");
}

}  // namespace
}  // namespace lockstep::runtime
