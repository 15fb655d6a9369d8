#pragma once

// For tests and benchmarks.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <vector>

#include "lockstep/collectives/rounds/algorithm_run.h"

namespace lockstep::collectives {

/// A network of hosts on a virtual clock, which carries the messages of one participant on each. A message
/// leaves its host once those before it have, and is received there likewise: each host's connection does
/// `bandwidth` in each direction. Times are in seconds.
class SimulatedHosts {
 public:
  struct Network {
    double latency = 10e-6;   ///< From one host to another.
    double overhead = 1e-6;   ///< Of each message, for sender and receiver.
    double bandwidth = 10e9;  ///< Bytes a second.
  };

  SimulatedHosts(int hosts, Network network);
  ~SimulatedHosts();

  Carrier& carrier(int host);

  /// From then on nothing comes to it, or from it.
  void lose(int host, double when);

  /// Calls each host's `advance` whenever something has come for it or gone from it, until it gives true, or
  /// nothing moves any more. Gives when the last one was done; those that never will be are in `stuck`.
  double finish(const std::vector<std::function<bool()>>& advance, std::vector<int>* stuck = nullptr);

  std::uint64_t messages() const { return messages_; }
  /// Bytes that left the host that sent most.
  std::uint64_t most_sent() const;

 private:
  class HostCarrier;
  struct Transfer;
  struct Event {
    double when;
    std::uint64_t number;  ///< Those of one time in the order in which they were made.
    int host;
    Transfer* message = nullptr;  ///< Its first byte comes to the host; none: the host looks.
    int slot = 0;
    bool operator>(const Event& other) const {
      return when != other.when ? when > other.when : number > other.number;
    }
  };

  void arrive(const Event& event);
  void meet(Transfer& sent, Transfer& received);
  void wake(int host, double when);

  const Network network_;
  double now_ = 0;
  std::vector<std::unique_ptr<HostCarrier>> hosts_;
  std::vector<double> lost_;
  std::vector<double> out_free_, in_free_;
  std::vector<std::uint64_t> sent_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t messages_ = 0, events_made_ = 0;
};

}  // namespace lockstep::collectives
