// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/compile_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/base/digest.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"

namespace lockstep::runtime {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kMagic = "lockstep executable 1\n", kEntryPrefix = "lockstep-",
                           kUnfinishedPrefix = ".lockstep-";
constexpr std::size_t kDigestSize = 32;

/// A file not finished after this long is of a process that was killed.
constexpr std::chrono::hours kAbandonedAfter(1);

std::string error_text() { return std::error_code(errno, std::generic_category()).message(); }

/// Closes a file at the end of its life.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() { close(); }
  File(const File&) = delete;
  bool valid() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }
  bool close() {
    const int descriptor = std::exchange(descriptor_, -1);
    return descriptor < 0 || ::close(descriptor) == 0;
  }

 private:
  int descriptor_;
};

/// The whole file; nullopt, with errno, if it cannot be read.
std::optional<std::string> read_all(int descriptor) {
  struct stat status;
  if (fstat(descriptor, &status) != 0) return std::nullopt;
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = read(descriptor, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::nullopt;
    if (count == 0) bytes.resize(done);
    done += static_cast<std::size_t>(count);
  }
  return bytes;
}

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

// An entry: kMagic, the digest of all that follows it, the key's size as text and a line end, the key, the
// code.
std::string entry_of(const std::string& key, std::string_view code) {
  std::string body = fmt::format("{}\n{}", key.size(), key);
  body += code;
  return fmt::format("{}{}", kMagic, digest(body)) + body;
}

/// What is wrong with the entry, or nothing and the code is left in `entry`.
std::string take_code(std::string& entry, const std::string& key) {
  const std::string_view all = entry;
  const std::size_t start = kMagic.size() + kDigestSize;
  if (all.size() < start || !all.starts_with(kMagic)) return "it is no entry of this version";
  const std::string_view body = all.substr(start);
  if (digest(body) != all.substr(kMagic.size(), kDigestSize)) return "it is damaged or cut short";
  const std::string head = fmt::format("{}\n{}", key.size(), key);
  if (!body.starts_with(head)) return "it is the entry of another key";
  entry.erase(0, start + head.size());
  return "";
}

}  // namespace

std::string CompileCache::path_of(const std::string& key) const {
  return options_.folder + "/" + std::string(kEntryPrefix) + digest(key);
}

void CompileCache::complain(std::string_view what) {
  if (!complained_.exchange(true))
    logging::warning("[compilation cache] {}; compiling instead. Further such lines are debug lines", what);
  else
    logging::debug("[compilation cache] {}", what);
}

std::optional<std::string> CompileCache::find(const std::string& key) {
  if (!enabled()) return std::nullopt;
  const std::string path = path_of(key);
  File file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    if (errno != ENOENT) complain(fmt::format("{} cannot be read: {}", path, error_text()));
    return std::nullopt;
  }
  std::optional<std::string> entry = read_all(file.get());
  if (!entry) {
    complain(fmt::format("{} cannot be read: {}", path, error_text()));
    return std::nullopt;
  }
  if (std::string wrong = take_code(*entry, key); !wrong.empty()) {
    discard(key, wrong);
    return std::nullopt;
  }
  // The modification time is the time of the last use. It cannot be set in another user's folder, which does
  // no harm.
  futimens(file.get(), nullptr);
  return entry;
}

void CompileCache::discard(const std::string& key, std::string_view reason) {
  complain(fmt::format("{} is not used: {}", path_of(key), reason));
  ::unlink(path_of(key).c_str());
}

void CompileCache::store(const std::string& key, std::string_view code) {
  if (!enabled()) return;
  const std::string entry = entry_of(key, code), path = path_of(key);
  if (static_cast<std::int64_t>(entry.size()) < options_.min_entry_size) return;
  std::error_code ignored;
  if (fs::exists(path, ignored)) return;
  fs::create_directories(options_.folder, ignored);
  if (!make_room(static_cast<std::int64_t>(entry.size()))) return;

  std::string unfinished = fmt::format("{}/{}XXXXXX", options_.folder, kUnfinishedPrefix);
  File file(mkostemp(unfinished.data(), O_CLOEXEC));
  if (!file.valid()) {
    complain(fmt::format("the folder {} cannot be written: {}", options_.folder, error_text()));
    return;
  }
  // Not synced: a file that is incomplete after a crash of the machine does not match its digest.
  const bool written = write_all(file.get(), entry) && fchmod(file.get(), 0644) == 0 && file.close() &&
                       rename(unfinished.c_str(), path.c_str()) == 0;
  if (written) return;
  complain(fmt::format("{} cannot be written: {}", path, error_text()));
  ::unlink(unfinished.c_str());
}

bool CompileCache::make_room(std::int64_t bytes) {
  struct Entry {
    fs::path path;
    std::int64_t size;
    fs::file_time_type used;
  };
  if (options_.max_size >= 0 && bytes > options_.max_size) {
    logging::debug("[compilation cache] an entry of {} bytes is not kept: the bound of {} is {}", bytes,
                   options_.folder, options_.max_size);
    return false;
  }
  if (options_.max_size < 0 && swept_.exchange(true)) return true;
  std::vector<Entry> entries;
  std::int64_t total = bytes;
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator it(options_.folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename();
    std::error_code gone;  // another process may remove it at any time
    const auto used = it->last_write_time(gone);
    const auto size = static_cast<std::int64_t>(it->file_size(gone));
    if (gone) continue;
    if (name.starts_with(kUnfinishedPrefix)) {
      if (now - used > kAbandonedAfter) fs::remove(it->path(), gone);
    } else if (name.starts_with(kEntryPrefix)) {
      entries.push_back({it->path(), size, used});
      total += size;
    }
  }
  if (options_.max_size < 0 || total <= options_.max_size) return true;
  std::ranges::sort(entries, {}, &Entry::used);
  for (const Entry& entry : entries) {
    if (total <= options_.max_size) break;
    std::error_code gone;
    fs::remove(entry.path, gone);
    total -= entry.size;
    logging::debug("[compilation cache] {} made room", entry.path.string());
  }
  return true;
}

}  // namespace lockstep::runtime
