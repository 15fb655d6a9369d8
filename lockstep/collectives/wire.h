// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/collectives/communicator.h"
#include "lockstep/collectives/host_layout.h"
#include "lockstep/collectives/job.h"

namespace lockstep::collectives {

/// The hosts at the distances 1, 2, 4, … from `host` in both directions, cyclically; all hosts if there are
/// up to 5. So if hosts differ, at least two notice it, and each host only tells a few.
std::vector<int> hosts_to_tell(int host, int hosts);

/// The network communication of one member of a group on several hosts: messages to the members of other
/// hosts, in one operation after the other. The first member of each host, its leader, also tells other
/// leaders its current operation: all of them if there are few hosts, otherwise those at the distances 1, 2,
/// 4, … in both directions. Use it from the thread that drives the member.
class Wire {
 public:
  Wire(Job& job, const std::vector<Member>& members, const HostLayout& layout, int rank);

  /// Call it for each operation of the group, whether or not this member sends anything in it.
  void next_operation() {
    const std::uint64_t next = operation_->load(std::memory_order_relaxed) + 1;
    operation_->store(next, std::memory_order_relaxed);
    if (begun_ != nullptr) begun_->store(next, std::memory_order_relaxed);
  }

  /// Whether each leader tells all others.
  bool tells_all() const { return static_cast<int>(told_hosts_.size()) == layout_.host_count() - 1; }

  /// The member's current operation.
  Operation operation(const Call& call) const {
    return operation_of(group_, operation_->load(std::memory_order_relaxed), call);
  }

  /// Begins the operation. A leader sends `call` to other leaders, with `bytes` of data if there are any.
  void begin(const Call& call, const void* data = nullptr, std::size_t bytes = 0);

  /// Ensures that there are connections to these ranks, which must do the same.
  void connect(const std::vector<int>& ranks);

  using Ticket = std::size_t;

  /// Messages between two members are matched in the order in which they are sent and received in an
  /// operation, separately for each `stage` (0 to 3). The memory must stay valid until the ticket has been
  /// waited for.
  Ticket send(int rank, int stage, const void* data, std::size_t bytes);
  Ticket receive(int rank, int stage, void* data, std::size_t bytes);

  /// Whether the transfer is done. If it has failed, throws as Communicator::run does.
  bool finished(Ticket ticket);

  /// Blocks until the transfer is done. Throws as Communicator::run does.
  void wait(Ticket ticket);
  void wait(const std::vector<Ticket>& tickets);

  /// Blocks until `done`, which is called repeatedly, returns true; `awaited` returns the rank of a member
  /// for which it waits.
  void wait_until(const std::function<int()>& awaited, const std::function<bool()>& done);

  /// For a leader: blocks until the leader of another host has sent its call, and returns the data that came
  /// with it. Throws DivergenceError if it is another call.
  const std::byte* wait_for_leader(int host);

  /// While it exists, messages make progress although this thread does something else.
  class Elsewhere {
   public:
    explicit Elsewhere(Wire& wire);
    ~Elsewhere();
    Elsewhere(const Elsewhere&) = delete;
    Elsewhere& operator=(const Elsewhere&) = delete;

   private:
    Wire& wire_;
    const bool left_;
  };

  /// Ends the operation: blocks until everything is done, and the leaders that report to this one have sent
  /// their calls.
  void end();

  /// Ends an operation that has thrown, so that its memory can be freed. Blocks for at most one second.
  void abandon() noexcept;

 private:
  struct Flight {
    Transfer transfer;
    int rank;
    bool done = false;
  };
  struct Header {
    std::uint64_t signature;
    std::uint64_t algorithms;  ///< the algorithms of the collectives (AlgorithmTable::fingerprint)
    std::uint64_t bytes;
  };

  const Call& call() const { return *call_; }
  bool is_leader() const { return layout_.leader(host_) == rank_; }
  std::uint64_t tag(int from, int to, unsigned kind, unsigned step) const;
  int endpoint(int rank) const { return lane_.endpoints.at(members_[rank].device); }
  Ticket start(int rank, Transfer transfer);
  /// Null if it is done and was forgotten.
  Flight* flight(Ticket ticket);
  void forget_done();
  void greet(unsigned round);
  bool done(Flight& flight);
  template <class Awaited, class Done>
  void block(Awaited awaited, Done done);
  void look_at_leaders();
  void note_links();
  [[noreturn]] void diverged();
  [[noreturn]] void differ_in_algorithms(int host);
  [[noreturn]] void broken(int rank, const std::string& text);
  std::string doing() const;

  Job& job_;
  const std::vector<Member>& members_;
  const HostLayout& layout_;
  const int rank_, host_;
  const std::uint64_t group_;
  const std::shared_ptr<std::atomic<std::uint64_t>> operation_;  // only the member's thread changes it
  std::atomic<std::uint64_t>* const begun_;                      // the same for the recorder; may be null
  Lane& lane_;
  std::unique_lock<std::mutex> lock_;  // of the lane, within an operation

  struct Greeting {
    int rank, endpoint;
    std::string out, in;
  };

  const std::vector<int> told_hosts_;  // ascending; their leaders and this one tell each other their
                                       // operations
  const Call* call_ = nullptr;
  std::deque<Flight> flights_;          // of this operation, without the first ones, which are done
  Ticket forgotten_ = 0;                // the number of these
  std::vector<std::uint64_t> secrets_;  // of each rank to which it is connected, and its own: for tags
  std::vector<Greeting> greetings_;
  std::vector<std::vector<std::byte>> told_;  // from each other leader: a header and its data
  std::vector<std::byte> telling_;
  std::vector<Ticket> hearing_;  // for each host's leader
  std::vector<bool> heard_;
  std::vector<std::string> texts_;  // of the other leaders, after a divergence
};

}  // namespace lockstep::collectives
