// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/folder_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/storage/file_calls.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::storage {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TemporaryFolder;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

TEST(FolderStore, FilesWrittenInPiecesOfAnySize_AreReadBack) {
  TemporaryFolder folder;
  const auto store = open_store(folder.path());
  // Larger than what is written at a time, in pieces that are and are not aligned.
  std::vector<std::byte> all(std::size_t{21} << 20);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::byte>(i * 7 + (i >> 12));
  void* aligned = nullptr;
  ASSERT_EQ(::posix_memalign(&aligned, 4096, all.size()), 0);
  const std::unique_ptr<void, decltype(&std::free)> owner(aligned, std::free);
  std::memcpy(aligned, all.data(), all.size());
  const std::span<const std::byte> source(static_cast<const std::byte*>(aligned), all.size());
  int number = 0;
  for (const std::vector<std::size_t>& pieces : {std::vector<std::size_t>{all.size()},
                                                 {1, all.size() - 1},
                                                 {4096, all.size() - 4096},
                                                 {0, 5, 12 << 20}}) {
    const std::string name = std::to_string(number++);
    auto writer = store->create(name);
    std::size_t at = 0;
    for (std::size_t size : pieces) {
      writer->write(source.subspan(at, size));
      at += size;
    }
    writer->write(source.subspan(at));
    writer->finish();
    const auto reader = store->open(name);
    ASSERT_EQ(reader->size(), all.size());
    std::vector<std::byte> back(all.size());
    reader->read(0, back);
    EXPECT_TRUE(back == all) << name;
    if (const auto mapped = reader->map()) {
      EXPECT_EQ(std::memcmp(mapped.get(), all.data(), all.size()), 0);
    }
    EXPECT_THAT(error_of<StorageError>([&] { reader->read(all.size() - 3, std::span(back).first(4)); }),
                HasSubstr("it ends at byte"));
  }
}

TEST(FolderStore, ReadOnce_GivesTheSameBytes_AtAnyAlignment) {
  // A disk, and memory, which some systems do not let pass by the page cache.
  for (const char* place : {"", "/dev/shm"}) {
    TemporaryFolder folder;
    const std::string path =
        *place == '\0' ? (folder.path() / "a").string() : fmt::format("{}/lockstep-once-{}", place, getpid());
    std::string text(std::size_t{5} << 20, '\0');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 + (i >> 12));
    text += "behind the last page";
    std::ofstream(path, std::ios::binary) << text;
    const auto reader = open_file(path);
    std::filesystem::remove(path);  // It is open.
    const auto memory = page_aligned_memory(text.size() + 1);
    for (const auto& [offset, bytes, shift] :
         {std::tuple<std::size_t, std::size_t, std::size_t>{0, text.size(), 0},
          {4096, text.size() - 4096, 0},
          {4096, 2 << 20, 1},
          {1, 3 << 20, 0},
          {8192, (1 << 20) + 1, 0},
          {8192, 4096, 0}}) {
      const std::span<std::byte> into(memory.get() + shift, bytes);
      std::ranges::fill(into, std::byte{0});
      reader->read_once(offset, into);
      EXPECT_EQ(std::memcmp(into.data(), text.data() + offset, bytes), 0) << offset << " " << bytes;
    }
    EXPECT_THAT(
        error_of<StorageError>([&] { reader->read_once(4096, std::span(memory.get(), text.size())); }),
        HasSubstr("it ends at byte"));
  }
}

TEST(FolderStore, AnUnfinishedFileIsRemoved_AndAnExistingOneIsNotOverwritten) {
  TemporaryFolder folder;
  const auto store = open_store(folder.path());
  store->create("a")->write(bytes_of("text"));
  EXPECT_FALSE(store->exists("a"));
  auto writer = store->create("a");
  writer->write(bytes_of("text"));
  writer->finish();
  EXPECT_THAT(error_of<StorageError>([&] { store->create("a"); }), HasSubstr("File exists"));
  EXPECT_EQ(read_whole(*store->open("a")), "text");
}

TEST(FolderStore, Publish_IsAtomic_AndOnlyTheFirstSucceeds) {
  TemporaryFolder folder;
  const auto store = open_store(folder.path() / "new/run", /*make=*/true);
  auto attempt = [&](const std::string& nonce) {
    const Attempt made = store->begin("step", nonce);
    auto writer = store->create(made.folder + "/part");
    writer->write(bytes_of(nonce));
    writer->finish();
    EXPECT_FALSE(store->exists("step/part") && nonce == "1");
    return made;
  };
  const Attempt first = attempt("1"), second = attempt("2");
  EXPECT_THAT(error_of<StorageError>([&] { store->begin("step", "2"); }), HasSubstr("File exists"));
  EXPECT_TRUE(store->publish(first, "step", "manifest", "one"));
  EXPECT_FALSE(store->publish(second, "step", "manifest", "two"));
  EXPECT_EQ(read_whole(*store->open("step/manifest")), "one");
  EXPECT_EQ(read_whole(*store->open("step/part")), "1");
  store->discard(second, {"part", "manifest"});
  EXPECT_THAT(store->list(""), ElementsAre(Entry{"step", true, 0}));
  EXPECT_THAT(store->list("step"), ElementsAre(Entry{"manifest", false, 3}, Entry{"part", false, 1}));
  std::ofstream(folder.path() / "new/run/step/other") << "x";
  store->remove("step", "manifest", {"part"});
  EXPECT_THAT(store->list("step"), ElementsAre(Entry{"other", false, 1}));
  EXPECT_THAT(store->list("nowhere"), IsEmpty());
}

/// Another process acts before one of the calls.
class Meanwhile : public FileCalls {
 public:
  int open(const char* path, int flags, mode_t mode) override {
    act();
    return FileCalls::open(path, flags, mode);
  }
  int fsync(int file) override {
    act();
    return FileCalls::fsync(file);
  }
  int rename(const char* from, const char* to, int folder) override {
    act();
    return FileCalls::rename(from, to, folder);
  }
  int unlink(const char* path, int folder) override {
    act();
    return FileCalls::unlink(path, folder);
  }
  int rmdir(const char* path) override {
    act();
    return FileCalls::rmdir(path);
  }
  int calls_before = 0;
  std::function<void()> action;

 private:
  void act() {
    if (action && calls_before-- == 0) std::exchange(action, nullptr)();
  }
};

TEST(FolderStore, ARemoval_KeepsWhatAnotherProcessPublishesMeanwhile) {
  bool acted = true;
  int calls_before = 0;
  for (; acted; ++calls_before) {
    TemporaryFolder folder;
    const auto store = open_store(folder.path());
    const auto publish = [&](const std::string& nonce) {
      const Attempt attempt = store->begin("step", nonce);
      for (const char* part : {"part-0", "part-1"}) {
        auto writer = store->create(attempt.folder + "/" + part);
        writer->write(bytes_of(nonce));
        writer->finish();
      }
      EXPECT_TRUE(store->publish(attempt, "step", "manifest", nonce));
    };
    publish("1");
    Meanwhile calls;
    const ScopedFileCalls scope(calls);
    acted = false;
    calls.calls_before = calls_before;
    calls.action = [&] {
      acted = true;
      store->remove("step", "manifest", {"part-0", "part-1"});
      publish("2");
    };
    store->remove("step", "manifest", {"part-0", "part-1"}, "1");
    calls.action = nullptr;
    if (!acted) break;
    for (const char* file : {"manifest", "part-0", "part-1"})
      EXPECT_EQ(read_whole(*store->open(std::string("step/") + file)), "2")
          << calls_before << " calls before";
  }
  EXPECT_GE(calls_before, 8);
}

/// As some file systems do with folders.
class WithoutFolderSync : public FileCalls {
 public:
  int fsync(int file) override {
    struct stat about;
    if (::fstat(file, &about) == 0 && static_cast<bool>(S_ISDIR(about.st_mode)) != sync_files) {
      errno = error;
      return -1;
    }
    return FileCalls::fsync(file);
  }
  int error = EINVAL;
  bool sync_files = false;  ///< it fails for files instead
};

TEST(FolderStore, AFileSystemThatCannotSyncFolders_Works) {
  TemporaryFolder folder;
  WithoutFolderSync calls;
  const ScopedFileCalls scope(calls);
  int step = 0;
  auto publish = [&] {
    const auto store = open_store(folder.path() / "new/run", /*make=*/true);
    const std::string name = std::to_string(++step);
    return store->publish(store->begin(name, "n"), name, "manifest", "bytes");
  };
  for (int error : {EINVAL, EOPNOTSUPP}) {
    calls.error = error;
    EXPECT_TRUE(publish()) << std::strerror(error);
  }
  calls.error = EIO;
  EXPECT_THAT(error_of<StorageError>(publish), HasSubstr("Input/output error"));
  calls.error = EINVAL;
  calls.sync_files = true;
  EXPECT_THAT(error_of<StorageError>(publish), HasSubstr("cannot bring to disk"));
}

TEST(FolderStore, AWrongPath_IsAnErrorThatSaysWhy) {
  TemporaryFolder folder;
  EXPECT_THAT(error_of<StorageError>([&] { open_store(folder.path() / "none"); }),
              HasSubstr("No such file or directory"));
  std::ofstream(folder.path() / "file") << "x";
  EXPECT_THAT(error_of<StorageError>([&] { open_store(folder.path() / "file"); }), HasSubstr("is a file"));
  EXPECT_THAT(error_of<StorageError>([&] { open_store(folder.path() / "file/in", true); }),
              HasSubstr("Not a directory"));
  EXPECT_THAT(error_of<StorageError>([&] { open_file(folder.path()); }), HasSubstr("it is a folder"));
  EXPECT_THAT(error_of<StorageError>([&] { open_file("/dev/null"); }), HasSubstr("a pipe or a device"));
  ASSERT_EQ(mkfifo((folder.path() / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(error_of<StorageError>([&] { open_file(folder.path() / "fifo"); }),
              HasSubstr("a pipe or a device"));
  EXPECT_EQ(read_whole(*open_file("file://" + (folder.path() / "file").string())), "x");
  EXPECT_THAT(error_of<StorageError>([&] { read_whole(*open_file(folder.path() / "file"), 0); }),
              HasSubstr("expected at most 0"));
}

}  // namespace
}  // namespace lockstep::storage
