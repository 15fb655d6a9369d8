#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::collectives {

class Job;

/// A device that has waited for others for a while, in a collective or for a communicator.
struct Wait {
  int device = 0;
  std::uint64_t id = 0;  ///< Another one for each wait of a process.
  std::uint64_t operation =
      0;                     ///< Which operation of which group it is in, the same for all members; 0: none.
  std::uint64_t looks = 0;   ///< How often the waiting thread has looked; it runs while this rises.
  std::string who;           ///< "process 1 of 4"
  std::string text;          ///< What it is in.
  std::vector<int> missing;  ///< The devices that it waits for.

  friend bool operator==(const Wait& a, const Wait& b) { return a.device == b.device && a.id == b.id; }
};

/// Waits that wait for each other in a ring, that of `device` among them, the lowest device's first; empty
/// where there are none. Such a ring never ends, for a device is in one collective at a time. A device that
/// is in the same operation as who waits for it has come: only its data are still on the way.
std::vector<Wait> find_ring(const std::vector<Wait>& waits, int device);

/// The message of the error for a ring.
std::string describe_ring(const std::vector<Wait>& ring);

/// For the way to another process. `decode` gives what it understands.
std::string encode(const std::vector<Wait>& waits);
std::vector<Wait> decode(const std::string& text);

/// The waits of this process. All methods may be called from any thread.
class WaitTable {
 public:
  std::uint64_t next_id();
  void note(const Wait& wait);
  void forget(const Wait& wait);
  std::vector<Wait> list() const;

 private:
  mutable std::mutex mutex_;
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, Wait> waits_;
};

/// The wait of one device, from the time that it is long: tells the other processes about it when they ask,
/// and asks them for theirs, to find out whether some wait for each other. To be made when a wait begins,
/// which costs nothing.
class LongWait {
 public:
  LongWait(Job& job, int device, std::uint64_t operation, std::function<std::string()> who,
           std::function<std::string()> text);
  ~LongWait();
  LongWait(const LongWait&) = delete;
  LongWait& operator=(const LongWait&) = delete;

  /// To be called every few dozen milliseconds with the devices that it waits for. When the same ring has
  /// been seen twice, and all threads in it have looked again in between, tells all processes, and throws
  /// DivergenceError.
  void look(const std::vector<int>& missing);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  Job& job_;
  std::function<std::string()> who_, text_;
  Wait wait_;
  TimePoint asked_{}, next_{};
  std::chrono::milliseconds round_;  ///< From a question to the look at its answers, longer as it goes on.
  std::uint64_t rounds_ = 0;
  std::vector<Wait> ring_;
};

}  // namespace lockstep::collectives
