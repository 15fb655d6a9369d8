// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/folder_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <future>
#include <new>
#include <set>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/storage/file_calls.h"
#include "lockstep/storage/open_file.h"
#include "lockstep/storage/url.h"

namespace lockstep::storage {
namespace {

/// Written at a time. Larger ones are not faster on any disk that was measured.
constexpr std::size_t kWriteBytes = std::size_t{8} << 20;

/// Some file systems, such as those of some servers, cannot sync a folder: then its entries are durable as
/// far as they can be.
void sync_folder(const OpenFile& folder, const std::string& path) {
  const int synced = retried([&] { return file_calls().fsync(folder.get()); });
  if (synced < 0 && errno != EINVAL && errno != EOPNOTSUPP) fail_with(errno, "bring to disk", path);
}

void sync_folder(const std::string& path) {
  OpenFile folder(path.empty() ? "." : path, O_RDONLY | O_DIRECTORY, "open the folder");
  sync_folder(folder, path);
  folder.close();
}

std::string parent_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

bool is_link(const std::string& path, int folder = AT_FDCWD) {
  struct stat about;
  return ::fstatat(folder, path.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(about.st_mode);
}

bool is_folder(const std::string& path) {
  struct stat about;
  return ::stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode);
}

/// Whether the path still leads to the open folder.
bool leads_to(const std::string& path, const OpenFile& folder) {
  struct stat here, there;
  return ::fstat(folder.get(), &here) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

/// Makes the folder and those above it; each is there for good when this returns.
void make_folders(const std::string& path) {
  if (path.empty() || is_folder(path)) return;
  const std::string parent = parent_of(path);
  if (parent != path) make_folders(parent);
  if (retried([&] { return file_calls().mkdir(path.c_str(), 0777); }) < 0 && errno != EEXIST)
    fail_with(errno, "make the folder", path);
  if (!is_folder(path)) fail_with(ENOTDIR, "make the folder", path);
  sync_folder(parent);
}

using Block = std::unique_ptr<std::byte, void (*)(void*)>;

Block new_block() { return page_aligned_memory(kWriteBytes); }

/// Collects the written data in aligned blocks; a thread writes one while the next is filled. Data that is
/// already aligned is written directly.
class FolderWriter : public Writer {
 public:
  explicit FolderWriter(const std::string& path)
      : url_(path), file_(path, O_WRONLY | O_CREAT | O_EXCL, "make") {}

  ~FolderWriter() override {
    if (being_written_.valid()) being_written_.wait();
    if (!finished_) file_calls().unlink(url_.c_str());
  }

  const std::string& url() const override { return url_; }

  void write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      // Large aligned memory is written directly.
      const bool aligned = reinterpret_cast<std::uintptr_t>(bytes.data()) % kDirectAlignment == 0;
      if (aligned && held_ % kDirectAlignment == 0 && bytes.size() >= kWriteBytes / 2) {
        put_held();
        const std::size_t some = std::min(bytes.size() / kDirectAlignment * kDirectAlignment, kWriteBytes);
        put(bytes.first(some));
        bytes = bytes.subspan(some);
        continue;
      }
      if (block_ == nullptr) block_ = new_block();
      const std::size_t some = std::min(bytes.size(), kWriteBytes - held_);
      std::memcpy(block_.get() + held_, bytes.data(), some);
      held_ += some;
      bytes = bytes.subspan(some);
      if (held_ < kWriteBytes) continue;
      wait();
      std::swap(block_, other_);
      held_ = 0;
      being_written_ = std::async(std::launch::async, [this] { put({other_.get(), kWriteBytes}); });
    }
  }

  void finish() override {
    put_held();
    file_.sync();
    file_.close();
    finished_ = true;
  }

 private:
  void wait() {
    if (being_written_.valid()) being_written_.get();
  }

  void put_held() {
    wait();
    if (held_ > 0) put({block_.get(), std::exchange(held_, 0)});
  }

  void put(std::span<const std::byte> bytes) {
    set_direct(bytes.size() % kDirectAlignment == 0 && at_ % kDirectAlignment == 0 && !refused_);
    while (!bytes.empty()) {
      const ssize_t written = retried([&] {
        return file_calls().pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(at_));
      });
      if (written < 0 && errno == EINVAL && direct_) {
        refused_ = true;
        set_direct(false);
        continue;
      }
      if (written < 0) fail_with(errno, "write", url_);
      if (written == 0) fail_with(EIO, "write", url_);
      at_ += static_cast<std::uint64_t>(written);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
      if (written % static_cast<ssize_t>(kDirectAlignment) != 0) set_direct(false);
    }
  }

  void set_direct(bool direct) {
    if (direct == direct_) return;
    const int flags = ::fcntl(file_.get(), F_GETFL);
    if (::fcntl(file_.get(), F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0)
      direct_ = direct;
    else
      refused_ = true;
  }

  std::string url_;
  OpenFile file_;
  Block block_{nullptr, std::free}, other_{nullptr, std::free};  // filled, and being written
  std::future<void> being_written_;
  std::size_t held_ = 0;
  std::uint64_t at_ = 0;
  bool direct_ = false, refused_ = false, finished_ = false;
};

class FolderStore : public Store {
 public:
  explicit FolderStore(std::string root) : root_(std::move(root)) {}

  std::string url(const std::string& name) const override {
    if (name.empty()) return root_;
    return root_.ends_with('/') ? root_ + name : root_ + "/" + name;
  }

  std::unique_ptr<Reader> open(const std::string& name) const override { return open_local_file(url(name)); }

  bool exists(const std::string& name) const override {
    struct stat about;
    if (::stat(url(name).c_str(), &about) == 0) return !S_ISDIR(about.st_mode);
    if (errno != ENOENT && errno != ENOTDIR) fail_with(errno, "look for", url(name));
    return false;
  }

  std::vector<Entry> list(const std::string& folder) const override {
    std::vector<Entry> all;
    std::error_code error;
    std::filesystem::directory_iterator each(url(folder), error);
    for (; !error && each != std::filesystem::directory_iterator(); each.increment(error)) {
      struct stat about;
      // Entries that have gone since they were listed do not count.
      if (::stat(each->path().c_str(), &about) < 0) continue;
      const bool is_folder = S_ISDIR(about.st_mode);
      all.push_back({each->path().filename().string(), is_folder,
                     is_folder ? 0 : static_cast<std::uint64_t>(about.st_size), is_link(each->path())});
    }
    if (error && error != std::errc::no_such_file_or_directory)
      fail_with(error.value(), "list the folder", url(folder));
    std::ranges::sort(all, {}, &Entry::name);
    return all;
  }

  std::unique_ptr<Writer> create(const std::string& name) override {
    return std::make_unique<FolderWriter>(url(name));
  }

  Attempt begin(const std::string& folder, const std::string& nonce) override {
    Attempt attempt{folder + ".tmp-" + nonce, ""};
    const std::string path = url(attempt.folder);
    make_folders(parent_of(path));
    if (retried([&] { return file_calls().mkdir(path.c_str(), 0777); }) < 0)
      fail_with(errno, "make the folder", path);
    return attempt;
  }

  bool has(const Attempt& attempt) const override { return is_folder(url(attempt.folder)); }

  std::optional<Attempt> end(const Attempt& attempt, const std::string&) override {
    if (attempt.folder.ends_with(kEnded)) return attempt;
    // Its process may be about to rename it, too: one of the two does.
    const Attempt ended{attempt.folder + kEnded, attempt.prefix};
    const std::string from = url(attempt.folder), to = url(ended.folder);
    if (retried([&] { return file_calls().rename(from.c_str(), to.c_str()); }) == 0) return ended;
    if (errno != ENOENT) fail_with(errno, "rename", from + " to " + to);
    return std::nullopt;
  }

  bool publish(const Attempt& attempt, const std::string& folder, const std::string& manifest,
               std::string_view bytes) override {
    const std::string from = url(attempt.folder), to = url(folder);
    auto writer = create(attempt.folder + "/" + manifest);
    writer->write(std::as_bytes(std::span(bytes)));
    writer->finish();
    sync_folder(from);
    // rename() replaces an empty folder, which has not been published.
    if (retried([&] { return file_calls().rename(from.c_str(), to.c_str()); }) < 0) {
      const int error = errno;
      // The second try finds nothing to rename any more, if the server's reply to the first one was lost.
      const bool done = error == ENOENT && read_if_there(*this, folder + "/" + manifest) == bytes;
      if (error == ENOTEMPTY || error == EEXIST || error == ENOTDIR) return false;
      if (!done) fail_with(error, "rename", from + " to " + to);
    }
    sync_folder(parent_of(to));
    return true;
  }

  void discard(const Attempt& attempt, const std::vector<std::string>& names) override {
    remove_files(attempt.folder, names);
    remove_empty_folder(url(attempt.folder));
  }

  void remove(const std::string& folder, const std::string& manifest, const std::vector<std::string>& names,
              const std::optional<std::string>& only) override {
    const std::string path = url(folder), record = manifest + kRemoved;
    // The target of a link belongs to someone else.
    if (is_link(path)) return unlink(path);
    const auto place = open_folder(path);
    if (!place) return;
    if (only) {
      auto there = read_if_there(*this, folder + "/" + manifest);
      if (!there) there = read_if_there(*this, folder + "/" + record);
      if (there != only || !leads_to(path, *place)) return;
    }
    const int below = place->get();
    if (retried([&] { return file_calls().rename(manifest.c_str(), record.c_str(), below); }) < 0 &&
        errno != ENOENT)
      fail_with(errno, "rename", path + "/" + manifest + " to " + record);
    // Without its manifest before anything else is gone, and without all else before the record is: power
    // losses included.
    sync_folder(*place, path);
    remove_files(*place, path, names);
    sync_folder(*place, path);
    unlink(record, below);
    remove_empty_folder(path);
  }

  void remove_files(const std::string& folder, const std::vector<std::string>& names) override {
    const auto place = open_folder(url(folder));
    if (place) remove_files(*place, url(folder), names);
  }

 private:
  /// Ends the name of an attempt that was ended.
  static constexpr const char* kEnded = ".ended";

  /// The folder itself, whatever its name leads to later: another process may end its removal and publish
  /// another one. Null if there is none, or a link.
  static std::unique_ptr<OpenFile> open_folder(const std::string& path) {
    if (is_link(path) || !is_folder(path)) return nullptr;
    try {
      return std::make_unique<OpenFile>(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, "open the folder");
    } catch (const StorageError&) {
      if (is_folder(path)) throw;
      return nullptr;
    }
  }

  void remove_files(const OpenFile& place, const std::string& path, const std::vector<std::string>& names) {
    std::set<std::string> folders;
    for (const std::string& name : names) {
      const std::size_t slash = name.rfind('/');
      if (slash != name.npos) {
        if (passes_a_link(place, name.substr(0, slash))) continue;
        folders.insert(path + "/" + name.substr(0, slash));
      }
      unlink(name, place.get());
    }
    for (const std::string& each : folders) remove_empty_folder(each);
  }

  static void unlink(const std::string& path, int folder = AT_FDCWD) {
    if (file_calls().unlink(path.c_str(), folder) < 0 && errno != ENOENT && errno != ENOTDIR &&
        errno != EISDIR)
      fail_with(errno, "remove", path);
  }

  static void remove_empty_folder(const std::string& path) {
    if (file_calls().rmdir(path.c_str()) < 0 && errno != ENOTEMPTY && errno != EEXIST && errno != ENOENT)
      fail_with(errno, "remove the folder", path);
  }

  /// Whether a folder on the way from the open one to `below` is a link.
  static bool passes_a_link(const OpenFile& place, const std::string& below) {
    for (std::size_t end = below.find('/');; end = below.find('/', end + 1)) {
      if (is_link(below.substr(0, end), place.get())) return true;
      if (end == below.npos) return false;
    }
  }

  std::string root_;
};

}  // namespace

std::unique_ptr<std::byte, void (*)(void*)> page_aligned_memory(std::size_t bytes) {
  void* memory = nullptr;
  if (::posix_memalign(&memory, kDirectAlignment, std::max<std::size_t>(bytes, 1)) != 0)
    throw std::bad_alloc();
  return {static_cast<std::byte*>(memory), std::free};
}

std::unique_ptr<Store> open_folder(const std::string& path, bool make) {
  if (path.empty()) fail<StorageError>("expected the path of a folder, got none");
  if (make) make_folders(path);
  if (!is_folder(path)) {
    struct stat about;
    if (::stat(path.c_str(), &about) < 0) fail_with(errno, "open the folder", path);
    fail<StorageError>("{} is a file, expected a folder", printable(path));
  }
  return std::make_unique<FolderStore>(path);
}

}  // namespace lockstep::storage
