// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::runtime {

/// Where compiled programs are kept on disk, and which.
struct CompileCacheOptions {
  std::string folder;                                 ///< empty: no cache
  std::chrono::duration<double> min_compile_time{0};  ///< programs that compile faster are not kept
  std::int64_t min_entry_size = 0;                    ///< in bytes; smaller programs are not kept
  std::int64_t max_size = -1;                         ///< in bytes, for all entries; negative: no limit
};

/// Machine code in a folder on disk, by key (docs/compile-cache.md has the format). Any number of processes,
/// also on several hosts, may use one folder at the same time: an entry exists completely or not at all. Only
/// a folder and entries that can be trusted (lockstep/base/trusted_file.h) are used. A failure with the
/// folder or an entry never fails the job: it is logged, the first time as a warning, and counts as a miss.
/// Functions may be called from any thread and do not throw.
class CompileCache {
 public:
  explicit CompileCache(CompileCacheOptions options) : options_(std::move(options)) {}

  bool enabled() const { return !options_.folder.empty(); }

  /// The code under this key; nullopt if there is none, or if the file is not the complete entry of exactly
  /// this key. Marks the entry as used now.
  std::optional<std::string> find(const std::string& key);

  /// Whether a program with this compile time is to be kept.
  bool wants(std::chrono::duration<double> compile_time) const {
    return enabled() && compile_time >= options_.min_compile_time;
  }

  /// Stores the code, unless it is too small or the key has an entry. If the folder would exceed its limit,
  /// the least recently used entries are removed, and so are leftovers of killed processes.
  void store(const std::string& key, std::string_view code);

  /// Removes an entry whose code the plugin rejected, for `reason`.
  void discard(const std::string& key, std::string_view reason);

  /// Logs that a program is compiled although the cache should have had it or kept it.
  void complain(std::string_view what);

  /// The file of the entry of this key.
  std::string path_of(const std::string& key) const;

 private:
  bool make_folder();
  bool make_room(std::int64_t bytes);

  const CompileCacheOptions options_;
  std::atomic<bool> complained_ = false, swept_ = false;
};

}  // namespace lockstep::runtime
