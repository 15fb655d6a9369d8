// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <mutex>

#include "lockstep/base/fail.h"
#include "lockstep/storage/folder_store.h"
#include "lockstep/storage/open_file.h"
#include "lockstep/storage/url.h"

namespace lockstep::storage {
namespace {

/// For smaller reads the page cache's read-ahead is faster.
constexpr std::size_t kLeastDirectRead = std::size_t{1} << 20;

class LocalFile final : public Reader, IdleFile {
  /// The open file. It is closed when the last one who reads it is done.
  class Open {
   public:
    /// Throws "cannot WHAT PATH: ...".
    Open(const std::string& path, const char* what) : file_(path, O_RDONLY | O_NONBLOCK, what) {
      if (::fstat(file_.get(), &about_) < 0) fail_with(errno, what, path);
    }
    ~Open() {
      if (direct_ >= 0) file_calls().close(direct_);
    }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;

    int get() const { return file_.get(); }
    const struct stat& about() const { return about_; }

    /// The same file, even if its name is gone, opened to bypass the page cache; -1 if that is impossible.
    int direct() const {
      std::call_once(direct_once_, [&] {
        direct_ = open_descriptor(fmt::format("/proc/self/fd/{}", get()), O_RDONLY | O_DIRECT);
      });
      return direct_;
    }

   private:
    struct Counted {
      Counted() { will_open(); }
      ~Counted() { was_closed(); }
    };
    const Counted counted_;
    const OpenFile file_;
    struct stat about_ {};
    mutable std::once_flag direct_once_;
    mutable int direct_ = -1;
  };

 public:
  explicit LocalFile(const std::string& path)
      : url_(path), absolute_(absolute(path)), open_(std::make_shared<Open>(path, "open")) {
    about_ = open_->about();
    if (S_ISDIR(about_.st_mode)) fail<StorageError>("cannot read {}: it is a folder", printable(path));
    if (!S_ISREG(about_.st_mode))
      fail<StorageError>("cannot read {}: expected a file, got a pipe or a device", printable(path));
    add();
  }
  ~LocalFile() override { remove(); }

  const std::string& url() const override { return url_; }
  std::uint64_t size() const override { return static_cast<std::uint64_t>(about_.st_size); }

  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    read_by(open()->get(), offset, into);
  }

  void read_once(std::uint64_t offset, std::span<std::byte> into) const override {
    const bool aligned = reinterpret_cast<std::uintptr_t>(into.data()) % kDirectAlignment == 0 &&
                         offset % kDirectAlignment == 0;
    if (aligned && into.size() >= kLeastDirectRead) {
      const auto file = open();
      if (file->direct() >= 0) {
        const auto some = into.first(into.size() / kDirectAlignment * kDirectAlignment);
        const std::size_t done = read_by(file->direct(), offset, some, /*direct=*/true);
        offset += done;
        into = into.subspan(done);
      }
    }
    read(offset, into);
  }

  std::shared_ptr<const std::byte> map() const override {
    const auto file = open();
    struct statfs about;
    if (size() == 0 || ::fstatfs(file->get(), &about) < 0) return nullptr;
    // File systems on local disks. If another machine is gone, a read returns an error, but a mapping raises
    // SIGBUS.
    constexpr std::array<long, 6> kLocal{EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,       BTRFS_SUPER_MAGIC,
                                         TMPFS_MAGIC,      OVERLAYFS_SUPER_MAGIC, 0x2fc12fc1 /* ZFS */};
    if (std::ranges::find(kLocal, static_cast<long>(about.f_type)) == kLocal.end()) return nullptr;
    const std::size_t size = this->size();
    void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file->get(), 0);
    if (memory == MAP_FAILED) return nullptr;
    return {static_cast<const std::byte*>(memory),
            [size](const std::byte* at) { ::munmap(const_cast<std::byte*>(at), size); }};
  }

  bool close_if_idle(bool unused_only) override {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || open_ == nullptr || open_.use_count() > 1) return false;
    if (unused_only && used_.exchange(false, std::memory_order_relaxed)) return false;
    open_.reset();
    return true;
  }

 private:
  static std::string absolute(const std::string& path) {
    std::error_code error;
    const std::string found = std::filesystem::absolute(path, error).string();
    return error ? path : found;
  }

  /// The file; opens it again if it was closed.
  std::shared_ptr<const Open> open() const {
    std::lock_guard lock(mutex_);
    used_.store(true, std::memory_order_relaxed);
    if (open_ != nullptr) return open_;
    auto again = std::make_shared<Open>(absolute_, "reopen");
    const struct stat& now = again->about();
    if (now.st_dev != about_.st_dev || now.st_ino != about_.st_ino || now.st_size != about_.st_size)
      fail<StorageError>("{} has been replaced since it was opened; open it again", printable(url_));
    open_ = std::move(again);
    return open_;
  }

  /// Returns how many bytes were read: all, or fewer if the file system refuses to bypass the page cache.
  std::size_t read_by(int file, std::uint64_t offset, std::span<std::byte> into, bool direct = false) const {
    std::size_t done = 0;
    while (done < into.size()) {
      const auto rest = into.subspan(done);
      const ssize_t read = retried([&] {
        return file_calls().pread(file, rest.data(), rest.size(), static_cast<off_t>(offset + done));
      });
      if (read < 0 && errno == EINVAL && direct) return done;
      if (read < 0) fail_with(errno, "read", url_);
      if (read == 0) {
        fail<StorageError>("cannot read {}: it ends at byte {}, where {} more are expected", printable(url_),
                           offset + done, rest.size());
      }
      done += static_cast<std::size_t>(read);
      // A read that does not begin at a page cannot continue in this way.
      if (direct && static_cast<std::size_t>(read) % kDirectAlignment != 0) return done;
    }
    return done;
  }

  const std::string url_, absolute_;
  struct stat about_ {};
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Open> open_;  ///< null while it is closed
  mutable std::atomic<bool> used_ = true;
};

}  // namespace

std::unique_ptr<Reader> open_local_file(const std::string& path) { return std::make_unique<LocalFile>(path); }

}  // namespace lockstep::storage
