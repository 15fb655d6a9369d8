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
#include <vector>

#include "lockstep/base/digest.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"
#include "lockstep/base/own_file.h"
#include "lockstep/base/trusted_file.h"

namespace lockstep::runtime {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kMagic = "lockstep executable 1\n", kEntryPrefix = "lockstep-",
                           kUnfinishedPrefix = ".lockstep-";
constexpr std::size_t kDigestSize = 32;

/// A file not finished after this long is of a process that was killed.
constexpr std::chrono::hours kAbandonedAfter(1);

/// Protobuf writes no executable of more than half of it.
constexpr std::int64_t kLargestEntry = std::int64_t{4} << 30;

std::string error_text() { return std::error_code(errno, std::generic_category()).message(); }

// An entry: kMagic, the digest of all that follows it, the key's size as text and a line end, the key, the
// code.
std::string entry_of(const std::string& key, std::string_view code) {
  std::string body = fmt::format("{}\n{}", key.size(), key);
  body += code;
  return fmt::format("{}{}", kMagic, digest(body)) + body;
}

/// The fault of the entry; if there is none, nothing is returned and the code is left in `entry`.
std::string take_code(std::string& entry, const std::string& key) {
  const std::string_view all = entry;
  const std::size_t start = kMagic.size() + kDigestSize;
  if (all.size() < start || !all.starts_with(kMagic)) return "it is not an entry of this version";
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
    logging::warning("[compilation cache] {}; compiling instead. Further such messages are logged as debug",
                     what);
  else
    logging::debug("[compilation cache] {}", what);
}

std::optional<std::string> CompileCache::find(const std::string& key) {
  if (!enabled()) return std::nullopt;
  const std::string path = path_of(key);
  const TrustedFile file = open_trusted_file(path);
  if (!file) {
    if (!file.why_not.empty()) complain(fmt::format("{} is not used: {}", path, file.why_not));
    return std::nullopt;
  }
  std::string entry;
  try {
    entry = read_all(file, kLargestEntry);
  } catch (const Error& error) {
    discard(key, error.what());
    return std::nullopt;
  }
  if (std::string wrong = take_code(entry, key); !wrong.empty()) {
    discard(key, wrong);
    return std::nullopt;
  }
  // The modification time is the time of the last use. It cannot be set in root's folder, which does no harm.
  futimens(file.file.get(), nullptr);
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
  if (fs::exists(path, ignored) || !make_folder()) return;
  if (!make_room(static_cast<std::int64_t>(entry.size()))) return;

  std::string unfinished = fmt::format("{}/{}XXXXXX", options_.folder, kUnfinishedPrefix);
  FileDescriptor file(mkostemp(unfinished.data(), O_CLOEXEC));
  if (!file) {
    complain(fmt::format("the folder {} cannot be written: {}", options_.folder, error_text()));
    return;
  }
  // Not synced: a file that is incomplete after a crash of the machine does not match its digest.
  const int error = write_all(file.get(), entry);
  if (error == 0 && fchmod(file.get(), kReadableFile) == 0 && ::close(file.release()) == 0 &&
      rename(unfinished.c_str(), path.c_str()) == 0)
    return;
  if (error != 0) errno = error;
  complain(fmt::format("{} cannot be written: {}", path, error_text()));
  ::unlink(unfinished.c_str());
}

bool CompileCache::make_folder() {
  // Somebody else may make it at the same time.
  std::string why = distrust_folder(options_.folder);
  if (why.empty()) {
    why = make_own_folders(options_.folder);
    if (why.empty())
      why = distrust_folder(options_.folder);
    else
      why = "it cannot be made: " + why;
  }
  if (!why.empty()) complain(fmt::format("the folder {} is not used: {}", options_.folder, why));
  return why.empty();
}

bool CompileCache::make_room(std::int64_t bytes) {
  struct Entry {
    fs::path path;
    std::int64_t size;
    fs::file_time_type used;
  };
  if (options_.max_size >= 0 && bytes > options_.max_size) {
    logging::debug(
        "[compilation cache] an entry of {} bytes is not kept: the limit of the folder {} is {} bytes", bytes,
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
    logging::debug("[compilation cache] removed {} to make room", entry.path.string());
  }
  return true;
}

}  // namespace lockstep::runtime
