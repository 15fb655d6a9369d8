#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::runtime {

/// Which compiled programs are kept on disk, and where.
struct CompileCacheOptions {
  std::string folder;                                 ///< empty: none are kept
  std::chrono::duration<double> min_compile_time{0};  ///< what compiled faster is not kept
  std::int64_t min_entry_size = 0;                    ///< bytes; what is smaller is not kept
  std::int64_t max_size = -1;                         ///< bytes of all entries; negative: no bound
};

/// Machine code in a folder on disk, by key (docs/compile-cache.md has the format). Any number of processes,
/// also of several hosts, may use one folder at the same time: an entry is there whole or not at all. It is
/// an aid only: whatever goes wrong with the folder or an entry is a line of the log, the first time as a
/// warning, and then a miss. Functions may be called from any thread and do not throw.
class CompileCache {
 public:
  explicit CompileCache(CompileCacheOptions options) : options_(std::move(options)) {}

  bool enabled() const { return !options_.folder.empty(); }

  /// The code that was kept under this key; nullopt where there is none, or where the file is not the whole
  /// entry of just this key. An entry that is found counts as used now.
  std::optional<std::string> find(const std::string& key);

  /// Whether a program that took so long to compile is to be kept.
  bool wants(std::chrono::duration<double> compile_time) const {
    return enabled() && compile_time >= options_.min_compile_time;
  }

  /// Keeps the code, unless it is smaller than the options want or there is an entry of the key. Entries used
  /// longest ago go where the folder would grow above its bound, and so do the leavings of killed processes.
  void store(const std::string& key, std::string_view code);

  /// Takes away an entry whose code the plugin refuses, for `reason`.
  void discard(const std::string& key, std::string_view reason);

  /// Logs that a program is compiled that the cache should have had or kept.
  void complain(std::string_view what);

  /// The file that the entry of a key is in.
  std::string path_of(const std::string& key) const;

 private:
  bool make_room(std::int64_t bytes);

  const CompileCacheOptions options_;
  std::atomic<bool> complained_ = false, swept_ = false;
};

}  // namespace lockstep::runtime
