// SPDX-License-Identifier: Apache-2.0
#pragma once

// For tests and benchmarks.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <vector>

#include "lockstep/collectives/rounds/schedule_run.h"

namespace lockstep::collectives {

/// A network of hosts with a virtual clock, which transports the messages of one participant on each host.
/// Each host sends its messages one after the other, and receives them in the same way; its connection has
/// `bandwidth` in each direction. Times are in seconds.
class SimulatedHosts {
 public:
  struct Network {
    double latency = 10e-6;   ///< from one host to another
    double overhead = 1e-6;   ///< for each message, at the sender and the receiver
    double bandwidth = 10e9;  ///< in bytes per second
  };

  SimulatedHosts(int hosts, Network network);
  ~SimulatedHosts();

  Carrier& carrier(int host);

  /// From then on nothing arrives at the host or leaves it.
  void lose(int host, double when);

  /// Calls each host's `advance` whenever a message has arrived for it or left it, until it returns true, or
  /// no message moves any more. Returns the time at which the last one finished; those that never finish are
  /// in `stuck`.
  double finish(const std::vector<std::function<bool()>>& advance, std::vector<int>* stuck = nullptr);

  std::uint64_t messages() const { return messages_; }
  /// The number of bytes sent by the host that sent most.
  std::uint64_t most_sent() const;

 private:
  class HostCarrier;
  struct Transfer;
  struct Event {
    double when;
    std::uint64_t number;  ///< orders events with the same time by their creation
    int host;
    Transfer* message = nullptr;  ///< its first byte arrives at the host; null: the host looks
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
