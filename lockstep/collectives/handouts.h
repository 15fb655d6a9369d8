// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/base/file_descriptor.h"
#include "lockstep/collectives/sealed_bytes.h"

namespace lockstep::collectives {

/// How Handouts communicates with other processes.
struct HandoutWays {
  /// Whether the process is on another host.
  std::function<bool(int process)> is_remote;

  /// Blocks until the process is connected; false if it is gone. May throw.
  std::function<bool(int process)> connect;

  /// Whether a connected process still exists. May throw, to end threads that wait for it.
  std::function<bool(int process)> is_there;

  // Send to a connected process, with a descriptor or -1. None may block.
  std::function<void(int process, const std::string& text)> want;
  std::function<void(int process, const std::string& text, int fd)> given;
};

enum class TakeOutcome {
  kTaken,
  kNotBegun,  ///< the other process has not begun to make it
  kGone,      ///< it has given up, or has left
  kLate,      ///< it has not finished in time
};

struct Taken {
  TakeOutcome outcome;
  std::shared_ptr<const SealedBytes> bytes = nullptr;  ///< for kTaken
};

struct TakeLimits {
  std::chrono::milliseconds to_begin, to_finish;
};

/// Bytes that a process makes and other processes of the job take from it, by key: within a host as a
/// descriptor of the memory that holds them, between hosts over the processes' own sockets, in blocks of a
/// megabyte. They are kept until all takers have taken them, or many others were given since. Keys are words
/// of up to kMaxKey characters. All methods may be called from any thread.
class Handouts {
 public:
  static constexpr std::size_t kMaxKey = 200;
  static constexpr std::size_t kWindow = 1 << 20;  ///< bytes that another host sends before it is asked again
  static constexpr std::size_t kMostHeld = 16;     ///< handouts whose bytes are kept at a time
  static constexpr std::size_t kMostRemembered = 4096;   ///< keys of removed handouts that are remembered
  static constexpr std::size_t kMostBytes = 1ull << 32;  ///< the limit for one; larger ones are not taken
                                                         ///< from another host

  explicit Handouts(HandoutWays ways) : ways_(std::move(ways)) {}

  /// This process has begun to make it: processes that ask for it wait.
  void begin(const std::string& key);

  /// It is ready. Takers that have not asked yet may do so later.
  void give(const std::string& key, std::shared_ptr<const SealedBytes> bytes, std::set<int> takers);

  /// It will not be made: processes that wait for it stop waiting.
  void give_up(const std::string& key);

  /// Blocks until it is ready, but at most for the limits and as long as the process lives. Throws the
  /// exceptions of `ways`, and Error if this process cannot get more memory or descriptors. One thread at a
  /// time may take a key of one process.
  Taken take(int process, const std::string& key, const TakeLimits& limits);

  /// Called by the thread that reads the other processes' messages, with the messages that they sent by
  /// `want` and `given`.
  void heed_want(int process, std::string_view text);
  void heed_given(int process, std::string_view text, FileDescriptor memory);

  /// For tests: the numbers of handouts whose bytes are kept, and of known keys.
  std::pair<std::size_t, std::size_t> held() const;

 private:
  struct Handout {
    bool begun = false, gone = false;
    std::shared_ptr<const SealedBytes> bytes;
    std::set<int> takers, waiting;
  };

  /// A handout for which a thread waits.
  struct Taking {
    bool begun = false;
    std::optional<SealedBytes::Writer> coming;
    std::optional<Taken> taken;
  };
  using TakingKey = std::pair<int, std::string>;

  // The mutex must be held.
  void answer(int process, const std::string& key, Handout& handout, std::size_t offset);
  void tell(int process, const std::string& key, char state);
  void note_taken(const std::string& key, Handout& handout, int process);
  void drop(const std::string& key, Handout& handout);
  void come(int process, const std::string& key, Taking& taking, std::size_t size, std::size_t offset,
            std::string_view bytes, FileDescriptor memory);

  const HandoutWays ways_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Handout> handouts_;
  std::deque<std::string> held_, gone_;  ///< keys, oldest first
  std::map<TakingKey, Taking> takings_;
};

}  // namespace lockstep::collectives
