// SPDX-License-Identifier: Apache-2.0
#pragma once

// Places for the runs that a model plays: a folder and a bucket, in which a process can end, or another one
// act, at any call.

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "lockstep/storage/file_calls.h"
#include "lockstep/storage/store.h"
#include "lockstep/storage/test_fake_s3.h"
#include "lockstep/storage/test_http_server.h"
#include "lockstep/storage/test_s3_server.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::test {

/// Counts the calls of the process that acts. Before one of them another process acts; from one on it is
/// dead: its calls have no effect.
class Interruption {
 public:
  void arm(int dies_at, int acts_at, std::function<void()> act) {
    calls_ = 0;
    dies_at_ = dies_at;
    acts_at_ = acts_at;
    act_ = std::move(act);
  }
  void disarm() { arm(-1, -1, {}); }

  /// Whether the process is dead at this call, of any thread.
  bool next() {
    std::function<void()> act;
    bool dead = false;
    {
      const std::lock_guard lock(mutex_);
      if (acting_) return false;
      const int call = calls_++;
      if (call == acts_at_) act = std::exchange(act_, {});
      acting_ = act != nullptr;
      dead = dies_at_ >= 0 && call >= dies_at_;
    }
    if (act) {
      act();
      const std::lock_guard lock(mutex_);
      acting_ = false;
    }
    return dead;
  }
  bool died() const { return dies_at_ >= 0 && calls_ > dies_at_; }
  bool acted() const { return acts_at_ >= 0 && calls_ > acts_at_; }

 private:
  std::mutex mutex_;
  int calls_ = 0, dies_at_ = -1, acts_at_ = -1;
  bool acting_ = false;
  std::function<void()> act_;
};

/// Where a run is, beside what does not belong to it.
class Place {
 public:
  virtual ~Place() = default;
  virtual bool is_folder() const = 0;
  virtual std::string url(const std::string& name) const = 0;

  /// All files by name, also those of others; a link is its target.
  virtual std::map<std::string, std::string> files() = 0;
  virtual void write(const std::string& name, const std::string& bytes) = 0;
  virtual void erase(const std::string& name) = 0;

  Interruption interruption;
};

/// Files, which are not brought to disk: there is no power loss here.
class FolderPlace : public Place, private storage::FileCalls {
 public:
  bool is_folder() const override { return true; }
  std::string url(const std::string& name) const override { return folder_.path() / name; }
  std::map<std::string, std::string> files() override {
    std::map<std::string, std::string> all;
    for (const auto& each : std::filesystem::recursive_directory_iterator(folder_.path())) {
      const std::string name = each.path().lexically_relative(folder_.path());
      if (each.is_symlink())
        all[name] = "-> " + std::filesystem::read_symlink(each.path()).string();
      else if (each.is_regular_file())
        all[name] = read(each.path());
    }
    return all;
  }
  void write(const std::string& name, const std::string& bytes) override {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    std::ofstream(folder_.path() / name, std::ios::binary) << bytes;
  }
  void erase(const std::string& name) override { std::filesystem::remove(folder_.path() / name); }

 private:
  static std::string read(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  bool fails() {
    if (!interruption.next()) return false;
    errno = EIO;
    return true;
  }
  int open(const char* path, int flags, mode_t mode) override {
    return fails() ? -1 : FileCalls::open(path, flags, mode);
  }
  ssize_t pread(int file, void* into, std::size_t bytes, off_t offset) override {
    return fails() ? -1 : FileCalls::pread(file, into, bytes, offset);
  }
  ssize_t pwrite(int file, const void* from, std::size_t bytes, off_t offset) override {
    return fails() ? -1 : FileCalls::pwrite(file, from, bytes, offset);
  }
  int fsync(int) override { return fails() ? -1 : 0; }
  int close(int file) override {
    const bool failed = fails();
    FileCalls::close(file);
    return failed ? -1 : 0;
  }
  int mkdir(const char* path, mode_t mode) override { return fails() ? -1 : FileCalls::mkdir(path, mode); }
  int rename(const char* from, const char* to, int folder) override {
    return fails() ? -1 : FileCalls::rename(from, to, folder);
  }
  int unlink(const char* path, int folder) override { return fails() ? -1 : FileCalls::unlink(path, folder); }
  int rmdir(const char* path) override { return fails() ? -1 : FileCalls::rmdir(path); }

  testing::TemporaryFolder folder_;
  storage::ScopedFileCalls scope_{*this};
};

/// The fake S3, at which the environment of this process points meanwhile.
class BucketPlace : public Place {
 public:
  BucketPlace() {
    ::setenv("AWS_ENDPOINT_URL_S3", server_.url().c_str(), 1);
    ::setenv("AWS_ACCESS_KEY_ID", "AKIDTHEFAKEONE1234", 1);
    ::setenv("AWS_SECRET_ACCESS_KEY", "a-secret-that-nobody-tells", 1);
    ::setenv("AWS_MAX_ATTEMPTS", "1", 1);
  }
  ~BucketPlace() override {
    for (const char* name :
         {"AWS_ENDPOINT_URL_S3", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_MAX_ATTEMPTS"})
      ::unsetenv(name);
  }
  bool is_folder() const override { return false; }
  std::string url(const std::string& name) const override { return "s3://bucket/" + name; }
  std::map<std::string, std::string> files() override {
    const std::lock_guard lock(s3_.mutex);
    std::map<std::string, std::string> all;
    for (const auto& [name, object] : s3_.objects) all[name] = object.bytes;
    return all;
  }
  void write(const std::string& name, const std::string& bytes) override {
    const std::lock_guard lock(s3_.mutex);
    s3_.objects[name] = {bytes, "\"written-" + std::to_string(written_++) + "\"", ""};
  }
  void erase(const std::string& name) override {
    const std::lock_guard lock(s3_.mutex);
    s3_.objects.erase(name);
  }

 private:
  storage::FakeS3 s3_;
  int written_ = 0;
  storage::TestHttpServer server_{[this](const storage::TestRequest& request) {
    if (interruption.next()) return storage::TestReply{.drop = true};
    return s3_(request);
  }};
};

/// A real S3 server, at which no process is killed.
class ServerPlace : public Place {
 public:
  explicit ServerPlace(const storage::TestS3Server& server) : server_(server) {
    for (const auto& [name, value] : server.variables()) ::setenv(name.c_str(), value.c_str(), 1);
    store_ = storage::open_store(url(""));
  }
  ~ServerPlace() override {
    for (const auto& [name, value] : server_.variables()) ::unsetenv(name.c_str());
  }
  bool is_folder() const override { return false; }
  std::string url(const std::string& name) const override {
    return fmt::format("{}/history-{}{}{}", server_.url(), number_, name.empty() ? "" : "/", name);
  }
  std::map<std::string, std::string> files() override {
    std::map<std::string, std::string> all;
    add("", all);
    return all;
  }
  void write(const std::string& name, const std::string& bytes) override {
    erase(name);
    auto writer = store_->create(name);
    writer->write(std::as_bytes(std::span(bytes)));
    writer->finish();
  }
  void erase(const std::string& name) override {
    const auto [folder, last] = storage::split_url(name);
    store_->remove_files(folder == "." ? "" : folder, {last});
  }

 private:
  void add(const std::string& folder, std::map<std::string, std::string>& all) {
    for (const storage::Entry& entry : store_->list(folder)) {
      const std::string name = folder.empty() ? entry.name : folder + "/" + entry.name;
      if (entry.is_folder)
        add(name, all);
      else
        all[name] = storage::read_whole(*store_->open(name));
    }
  }

  static inline int numbers_ = 0;
  const int number_ = ++numbers_;
  const storage::TestS3Server& server_;
  std::unique_ptr<storage::Store> store_;
};

}  // namespace lockstep::test
