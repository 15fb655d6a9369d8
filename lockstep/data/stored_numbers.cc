// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/stored_numbers.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <optional>
#include <random>

#include "lockstep/base/digest.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/file_descriptor.h"
#include "lockstep/base/log.h"
#include "lockstep/storage/file_calls.h"
#include "lockstep/storage/open_file.h"
#include "lockstep/storage/url.h"

namespace lockstep::data::internal {
namespace {

constexpr std::string_view kMagic = "LSNUMS01";

std::string_view view(const std::uint64_t* numbers, std::uint64_t count) {
  return {reinterpret_cast<const char*>(numbers), count * sizeof *numbers};
}

struct Header {
  std::uint64_t magic, of, count, hash;
};

Header header(Fingerprint of, std::uint64_t count) {
  Header made{0, of, count, 0};
  std::memcpy(&made.magic, kMagic.data(), kMagic.size());
  made.hash = fingerprint(view(&made.magic, 3));
  return made;
}

std::uint64_t file_size(std::uint64_t count) {
  const std::uint64_t blocks = count / StoredNumbers::kInBlock + (count % StoredNumbers::kInBlock != 0);
  return StoredNumbers::kHeader + 8 * (count + blocks);
}

}  // namespace

StoredNumbers::StoredNumbers(std::string operation, const std::string& path, Fingerprint of)
    : file_(std::move(operation), path) {
  const auto found = file_.number<Header>(0);
  const Header expected = header(of, found.count);
  if (found.magic != expected.magic || found.hash != header(found.of, found.count).hash)
    file_.damaged(0, "this is not an index, or a damaged one; remove it");
  if (found.of != of) file_.damaged(8, "this is the index of another version of the file; remove it");
  count_ = found.count;
  if (count_ > file_.size() || file_size(count_) != file_.size()) {
    file_.damaged(16, fmt::format("the index should hold {} numbers, and the file has {} bytes; remove it",
                                  count_, file_.size()));
  }
}

std::uint64_t StoredNumbers::numbers_in(std::uint64_t block) const {
  return std::min(kInBlock, count_ - block * kInBlock);
}

void StoredNumbers::read_block(std::uint64_t block, Block& numbers) const {
  const std::uint64_t offset = kHeader + block * sizeof numbers, count = numbers_in(block);
  file_.read(offset, std::as_writable_bytes(std::span(numbers).first(count + 1)));
  if (numbers[count] != fingerprint(view(numbers.data(), count)))
    file_.damaged(offset, "this block of the index is damaged; remove the file");
}

std::uint64_t StoredNumbers::operator[](std::uint64_t i) const {
  Block numbers;
  read_block(i / kInBlock, numbers);
  return numbers[i % kInBlock];
}

std::pair<std::uint64_t, std::uint64_t> StoredNumbers::two(std::uint64_t i) const {
  Block numbers;
  read_block(i / kInBlock, numbers);
  const std::uint64_t first = numbers[i % kInBlock];
  if (i % kInBlock + 1 < kInBlock) return {first, numbers[i % kInBlock + 1]};
  return {first, (*this)[i + 1]};
}

void StoredNumbers::fail_outdated(const File& file, std::uint64_t offset, std::string_view what) const {
  file.damaged(offset,
               fmt::format("{}; the file has changed since its index was made: remove {}", what, url()));
}

std::uint64_t StoredNumbers::count_up_to(std::uint64_t value) const {
  std::uint64_t below = 0, above = (count_ + kInBlock - 1) / kInBlock;  // Blocks.
  Block numbers;
  while (below < above) {
    const std::uint64_t middle = below + (above - below) / 2;
    read_block(middle, numbers);
    const auto end = numbers.begin() + static_cast<std::ptrdiff_t>(numbers_in(middle));
    if (numbers.front() > value) {
      above = middle;
    } else if (*(end - 1) <= value) {
      below = middle + 1;
    } else {
      return middle * kInBlock +
             static_cast<std::uint64_t>(std::upper_bound(numbers.begin(), end, value) - numbers.begin());
    }
  }
  return std::min(count_, below * kInBlock);
}

namespace {

/// Writes the file of StoredNumbers, under another name until it is whole.
class NumbersWriter {
 public:
  NumbersWriter(std::string path, Fingerprint of) : path_(std::move(path)), of_(of) {
    remove_abandoned();
    // At random: in a container the next start has the same process number.
    std::random_device random;
    temporary_ = fmt::format("{}{}{:08x}{:08x}", path_, kTemporary, random(), random());
    file_ = storage::open_descriptor(temporary_, O_CREAT | O_EXCL | O_WRONLY);
    open_error_ = file_ < 0 ? errno : 0;
    if (file_ >= 0) flock(file_, LOCK_EX | LOCK_NB);  // as long as it is being written
    buffer_.reserve(kBuffer);
  }
  ~NumbersWriter() {
    if (file_ < 0) return;
    storage::file_calls().close(file_);
    storage::file_calls().unlink(temporary_.c_str());
  }
  NumbersWriter(const NumbersWriter&) = delete;
  NumbersWriter& operator=(const NumbersWriter&) = delete;

  /// Why the file cannot be created; 0 if it can.
  int open_error() const { return open_error_; }

  void append(std::uint64_t number) {
    buffer_.push_back(number);
    ++count_;
    if (++in_block_ == StoredNumbers::kInBlock) end_block();
    if (in_block_ == 0 && buffer_.size() >= kBuffer) flush();
  }

  void finish() {
    if (in_block_ > 0) end_block();
    flush();
    const Header first = header(of_, count_);
    write(&first, sizeof first, 0);
    if (storage::file_calls().fsync(file_) != 0) fail_with("cannot be written to the disk");
    const int closed = storage::file_calls().close(file_);
    file_ = -1;
    if (closed != 0 || storage::file_calls().rename(temporary_.c_str(), path_.c_str()) != 0) {
      const int error = errno;
      storage::file_calls().unlink(temporary_.c_str());
      errno = error;
      fail_with("cannot be put in place");
    }
  }

 private:
  static constexpr std::string_view kTemporary = ".tmp-";

  /// Removes what processes that were killed have left of this index: old files that nobody has locked.
  void remove_abandoned() const {
    const std::filesystem::path path(path_);
    const std::string prefix = path.filename().string() + std::string(kTemporary);
    std::error_code error;
    std::filesystem::directory_iterator each(path.has_parent_path() ? path.parent_path() : ".", error);
    for (; !error && each != std::filesystem::directory_iterator(); each.increment(error)) {
      if (!each->path().filename().string().starts_with(prefix)) continue;
      struct stat about;
      const FileDescriptor file(
          ::open(each->path().c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC));
      // Not all file systems tell of locks of other hosts.
      const bool old =
          file && ::fstat(file.get(), &about) == 0 && about.st_mtime + kAbandonedAfter < std::time(nullptr);
      if (old && flock(file.get(), LOCK_EX | LOCK_NB) == 0)
        storage::file_calls().unlink(each->path().c_str());
    }
  }

  static constexpr std::time_t kAbandonedAfter = 3600;
  static constexpr std::size_t kBuffer = 256 * (StoredNumbers::kInBlock + 1);

  void end_block() {
    buffer_.push_back(fingerprint(view(buffer_.data() + buffer_.size() - in_block_, in_block_)));
    in_block_ = 0;
  }
  void flush() {
    write(buffer_.data(), buffer_.size() * sizeof buffer_[0], offset_);
    offset_ += buffer_.size() * sizeof buffer_[0];
    buffer_.clear();
  }
  void write(const void* from, std::size_t bytes, std::uint64_t offset) {
    const char* next = static_cast<const char*>(from);
    while (bytes > 0) {
      const ssize_t wrote = storage::file_calls().pwrite(file_, next, bytes, static_cast<off_t>(offset));
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) fail_with("cannot be written");
      next += wrote, offset += static_cast<std::uint64_t>(wrote), bytes -= static_cast<std::size_t>(wrote);
    }
  }
  [[noreturn]] void fail_with(const char* what) {
    fail<DataError>("[index] {} {}: {}", temporary_, what, std::strerror(errno));
  }

  std::string path_, temporary_;
  Fingerprint of_;
  int file_, open_error_;
  std::vector<std::uint64_t> buffer_;
  std::uint64_t count_ = 0, in_block_ = 0, offset_ = StoredNumbers::kHeader;
};

/// A lock of one process and thread of this host at a time, if the file system supports it.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder)
      : file_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    while (file_ >= 0 && flock(file_, LOCK_EX) != 0 && errno == EINTR) continue;
  }
  ~FolderLock() {
    if (file_ >= 0) close(file_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_;
};

std::string cache_folder() {
  const Environment& environment = Environment::process();
  if (auto folder = environment.get("LOCKSTEP_DATA_CACHE"); folder && !folder->empty()) return *folder;
  if (auto folder = environment.get("XDG_CACHE_HOME"); folder && !folder->empty())
    return *folder + "/lockstep/data";
  if (auto folder = environment.get("HOME"); folder && !folder->empty())
    return *folder + "/.cache/lockstep/data";
  return "";
}

/// The possible paths of the numbers, the preferred one first.
std::vector<std::string> places(const std::string& url, const std::string& kind, Fingerprint of,
                                const IndexOptions& options) {
  const bool local = !url.empty() && !storage::locate(url).is_object;
  const std::string base = url.substr(url.find_last_of('/') + 1);
  // In a folder with indexes of several files, the name also identifies the file's location.
  const std::string elsewhere =
      url.empty()
          ? fmt::format("{}-{:016x}.index", kind, of)
          : fmt::format("{}.{}.{}.index", base,
                        digest(local ? std::filesystem::absolute(url).string() : url).substr(0, 16), kind);
  if (!options.folder.empty()) return {storage::local_path(options.folder) + "/" + elsewhere};
  std::vector<std::string> found;
  if (local) found.push_back(url + "." + kind + ".index");
  if (const std::string cache = cache_folder(); !cache.empty())
    found.push_back(storage::local_path(cache) + "/" + elsewhere);
  return found;
}

std::shared_ptr<const StoredNumbers> open_if_good(const std::string& operation, const std::string& path,
                                                  Fingerprint of, bool say_why_not) {
  if (access(path.c_str(), F_OK) != 0) return nullptr;
  try {
    return std::make_shared<StoredNumbers>(operation, path, of);
  } catch (const DataError& error) {
    if (say_why_not) logging::info("[{}] the index is made again: {}", operation, error.what());
    return nullptr;
  }
}

}  // namespace

std::shared_ptr<const StoredNumbers> stored_numbers(const std::string& operation, const std::string& url,
                                                    const std::string& kind, Fingerprint of,
                                                    const IndexOptions& options,
                                                    const std::function<void(const Append&)>& make) {
  std::vector<std::string> paths;
  try {
    paths = places(url, kind, of, options);
  } catch (const StorageError& error) {
    fail<DataError>("[{}] the folder of indexes: {}", operation, error.what());
  }
  for (const std::string& path : paths) {
    if (auto found = open_if_good(operation, path, of, false)) return found;
  }
  std::string errors;
  for (const std::string& path : paths) {
    std::filesystem::path folder = std::filesystem::path(path).parent_path();
    if (folder.empty()) folder = ".";
    std::error_code ignored;  // The folder's own error is that of writing to it.
    std::filesystem::create_directories(folder, ignored);
    FolderLock lock(folder);
    if (auto found = open_if_good(operation, path, of, true)) return found;
    NumbersWriter writer(path, of);
    if (writer.open_error() != 0) {
      errors += fmt::format("; {}: {}", path, std::strerror(writer.open_error()));
      continue;
    }
    make([&](std::uint64_t number) { writer.append(number); });
    writer.finish();
    return std::make_shared<StoredNumbers>(operation, path, of);
  }
  fail<DataError>(
      "[{}] there is no folder in which the index of {} can be stored: give one in IndexOptions, or set "
      "LOCKSTEP_DATA_CACHE{}",
      operation, url.empty() ? kind : url, errors);
}

}  // namespace lockstep::data::internal
