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

#include "lockstep/collectives/file_descriptor.h"
#include "lockstep/collectives/sealed_bytes.h"

namespace lockstep::collectives {

/// How Handouts reaches other processes.
struct HandoutWays {
  /// Whether the process is on another host.
  std::function<bool(int process)> is_remote;

  /// Blocks until the process is connected; false where it is gone. May throw.
  std::function<bool(int process)> connect;

  /// Whether a connected process is still there. May throw, to end who waits for it.
  std::function<bool(int process)> is_there;

  // Send to a connected process, with a descriptor or -1. None may block.
  std::function<void(int process, const std::string& text)> want;
  std::function<void(int process, const std::string& text, int fd)> given;
};

enum class TakeOutcome {
  kTaken,
  kNotBegun,  ///< The other process has not begun to make it.
  kGone,      ///< It has given it up, or has left.
  kLate,      ///< It has not finished it.
};

struct Taken {
  TakeOutcome outcome;
  std::shared_ptr<const SealedBytes> bytes = nullptr;  ///< Of kTaken.
};

struct TakeLimits {
  std::chrono::milliseconds to_begin, to_finish;
};

/// Bytes that a process makes and others of the job take from it, by key: within a host as a descriptor of
/// the memory that they are in, between hosts over the processes' own sockets, a megabyte at a time. They
/// stay until all who are to take them have, or many others were given since. Keys are words of up to
/// kMaxKey. All methods may be called from any thread.
class Handouts {
 public:
  static constexpr std::size_t kMaxKey = 200;
  static constexpr std::size_t kWindow = 1
                                         << 20;  ///< Bytes that another host sends before it is asked again.
  static constexpr std::size_t kMostHeld = 16;   ///< Handouts whose bytes are held at a time.
  static constexpr std::size_t kMostRemembered = 4096;   ///< Of those that are gone.
  static constexpr std::size_t kMostBytes = 1ull << 32;  ///< Of one; more is not taken from another host.

  explicit Handouts(HandoutWays ways) : ways_(std::move(ways)) {}

  /// This process has begun to make it: who asks for it waits.
  void begin(const std::string& key);

  /// It is there. Who of the takers, processes, has not asked yet may do so later.
  void give(const std::string& key, std::shared_ptr<const SealedBytes> bytes, std::set<int> takers);

  /// It is not made after all: who waits for it waits no more.
  void give_up(const std::string& key);

  /// Blocks until it is there, no longer than the limits say and the process lives. Throws what `ways`
  /// throws, and Error where this process can have no more memory or descriptors. One thread at a time may
  /// take a key of one process.
  Taken take(int process, const std::string& key, const TakeLimits& limits);

  /// The thread that hears the other processes calls these with what they sent by `want` and `given`.
  void heed_want(int process, std::string_view text);
  void heed_given(int process, std::string_view text, FileDescriptor memory);

  /// For tests: handouts whose bytes are held, and keys that are known.
  std::pair<std::size_t, std::size_t> held() const;

 private:
  struct Handout {
    bool begun = false, gone = false;
    std::shared_ptr<const SealedBytes> bytes;
    std::set<int> takers, waiting;
  };

  /// What a thread waits for.
  struct Taking {
    bool begun = false;
    std::optional<SealedBytes::Writer> coming;
    std::optional<Taken> taken;
  };
  using TakingKey = std::pair<int, std::string>;

  // Under the mutex.
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
  std::deque<std::string> held_, gone_;  ///< Keys, those first that came first.
  std::map<TakingKey, Taking> takings_;
};

}  // namespace lockstep::collectives
