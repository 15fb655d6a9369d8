// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/collectives/communicator.h"

namespace lockstep::collectives {

class Job;

/// A device that has waited for others for a while, in a collective or for a communicator.
struct Wait {
  int device = 0;
  std::uint64_t id = 0;  ///< different for each wait of a process
  Operation operation;
  std::uint64_t looks = 0;   ///< how often the waiting thread has checked; it is running while this increases
  std::string who;           ///< "process 1 of 4"
  std::string text;          ///< a description of the wait
  std::vector<int> missing;  ///< the devices for which it waits
  std::map<std::uint64_t, std::uint64_t> begun = {};  ///< for each of the device's groups on several hosts:
                                                      ///< the number of operations that it has begun

  friend bool operator==(const Wait& a, const Wait& b) { return a.device == b.device && a.id == b.id; }
};

/// Waits that wait for each other in a ring, including that of `device`, beginning with the lowest device;
/// empty if there are none. Such a ring never ends, because a device is in one collective at a time. A device
/// that has gone on from the operation in which another one waits for it is in no ring, because it has sent
/// all that it had to. Devices in the same operation wait for each other's data; they are in a ring only with
/// a device that has not come there and waits, in the end, for one of them elsewhere: the two do the
/// operations in different orders. For the first wait of `device`, `members` are all devices of its
/// operation, if it is over several hosts: it waits for each of them in the end.
std::vector<Wait> find_ring(const std::vector<Wait>& waits, int device,
                            const std::vector<Member>& members = {});

/// The error message for a ring.
std::string describe_ring(const std::vector<Wait>& ring);

/// For sending to another process. `decode` returns the waits that it understands.
std::string encode(const std::vector<Wait>& waits);
std::vector<Wait> decode(const std::string& text);

/// A long text for several messages, each with up to `most` bytes (at least 2): each begins with a mark,
/// which says whether more follow.
std::vector<std::string> split_text(std::string_view text, std::size_t most);

/// Puts the text together again.
class SplitText {
 public:
  /// The whole text with its last message; nullopt before. A text of more than kMostBytes, or a message
  /// without a mark, is dropped.
  std::optional<std::string> take(std::string_view message);

 private:
  static constexpr std::size_t kMostBytes = 64 << 20;
  std::string text_;
};

/// The waits of this process. All methods may be called from any thread.
class WaitTable {
 public:
  std::uint64_t next_id();
  void note(const Wait& wait);
  void forget(const Wait& wait);
  std::vector<Wait> list() const;

  /// The number of operations that the device has begun in a group on several hosts, which its thread keeps.
  std::shared_ptr<std::atomic<std::uint64_t>> count_of(int device, std::uint64_t group);

  /// The device's groups, for Wait::begun.
  std::map<std::uint64_t, std::uint64_t> begun(int device) const;

 private:
  mutable std::mutex mutex_;
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, Wait> waits_;
  std::map<int, std::map<std::uint64_t, std::shared_ptr<std::atomic<std::uint64_t>>>> counts_;
};

/// The wait of one device, once it is long: reports it to other processes when they ask, and asks them for
/// theirs, to find out whether processes wait for each other. Made when a wait begins, which costs nothing.
class LongWait {
 public:
  /// `members`: all devices of an operation over several hosts, of which Wait::begun says who has come; they
  /// must live as long as the wait.
  LongWait(Job& job, int device, const Operation& operation, std::function<std::string()> who,
           std::function<std::string()> text, const std::vector<Member>* members = nullptr);
  ~LongWait();
  LongWait(const LongWait&) = delete;
  LongWait& operator=(const LongWait&) = delete;

  /// Call it every few dozen milliseconds with the devices for which it waits. If it has seen the same ring
  /// twice, and all threads in it have checked in between, it tells all processes, and throws
  /// DivergenceError.
  void look(const std::vector<int>& missing);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  Job& job_;
  std::function<std::string()> who_, text_;
  const std::vector<Member>* members_;
  Wait wait_;
  TimePoint asked_{}, next_{};
  std::chrono::milliseconds round_;  ///< the time between a question and reading its answers; grows during
                                     ///< the wait
  std::uint64_t rounds_ = 0;
  std::vector<Wait> ring_;
};

}  // namespace lockstep::collectives
