#pragma once

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

/// Of so many hosts those at the distances 1, 2, 4, … from `host` in both directions, around; all of up to 5.
/// So that of hosts that differ at least two see it, and each tells few.
std::vector<int> hosts_to_tell(int host, int hosts);

/// What every member of a group on several hosts does on the network, in one operation after the other:
/// messages to the members of other hosts. The first member of each host, its leader, also tells other
/// leaders which operation it is in: all of them where there are few hosts, else those at the distances 1, 2,
/// 4, … in both directions. To be used by the thread that drives the member.
class Wire {
 public:
  Wire(Job& job, const std::vector<Member>& members, const HostLayout& layout, int rank);

  /// To be called for each operation of the group, whether or not this member has anything to send in it.
  void next_operation() { ++operation_; }

  /// Whether each leader tells all others.
  bool tells_all() const { return static_cast<int>(told_hosts_.size()) == layout_.host_count() - 1; }

  /// Of the operation that the member is in, for Wait::operation.
  std::uint64_t operation_number(const Call& call) const {
    return collectives::operation_number(group_, operation_, call);
  }

  /// Begins the operation. As the leader, tells `call` to other leaders, with `bytes` of data if there are
  /// any.
  void begin(const Call& call, const void* data = nullptr, std::size_t bytes = 0);

  /// Makes sure that there are connections to these ranks, which do the same.
  void connect(const std::vector<int>& ranks);

  using Ticket = std::size_t;

  /// Messages between two members meet in the order in which they are sent and received in an operation, for
  /// each `stage` (0 to 3) on its own. The memory must stay until the ticket has been waited for.
  Ticket send(int rank, int stage, const void* data, std::size_t bytes);
  Ticket receive(int rank, int stage, void* data, std::size_t bytes);

  /// Whether the transfer is done. Throws where it has failed, as Communicator::run.
  bool finished(Ticket ticket);

  /// Blocks until the transfer is done. Throws as Communicator::run.
  void wait(Ticket ticket);
  void wait(const std::vector<Ticket>& tickets);

  /// Blocks until `done`, which is asked again and again, gives true; `awaited` gives the rank of a member
  /// that is waited for.
  void wait_until(const std::function<int()>& awaited, const std::function<bool()>& done);

  /// As the leader: blocks until the leader of another host has told its call, which must be this one, and
  /// gives the data that came with it. Throws DivergenceError where it is another.
  const std::byte* wait_for_leader(int host);

  /// While it stands, messages move although this thread does something else.
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

  /// Ends the operation: blocks until all is done, and the leaders that tell this one have told their calls.
  void end();

  /// Ends an operation that has thrown, so that its memory may go. Blocks for a second at most.
  void abandon() noexcept;

 private:
  struct Flight {
    Transfer transfer;
    int rank;
    bool done = false;
  };
  struct Header {
    std::uint64_t signature;
    std::uint64_t ways;  ///< By which collectives go (WayTable::fingerprint).
    std::uint64_t bytes;
  };

  const Call& call() const { return *call_; }
  bool is_leader() const { return layout_.leader(host_) == rank_; }
  std::uint64_t tag(int from, int to, unsigned kind, unsigned step) const;
  int endpoint(int rank) const { return lane_.endpoints.at(members_[rank].device); }
  Ticket start(int rank, Transfer transfer);
  /// Null where it is done, and was forgotten.
  Flight* flight(Ticket ticket);
  void forget_done();
  void greet(unsigned round);
  bool done(Flight& flight);
  template <class Awaited, class Done>
  void block(Awaited awaited, Done done);
  void look_at_leaders();
  [[noreturn]] void diverged();
  [[noreturn]] void differ_in_ways(int host);
  [[noreturn]] void broken(int rank, const std::string& text);
  std::string doing() const;

  Job& job_;
  const std::vector<Member>& members_;
  const HostLayout& layout_;
  const int rank_, host_;
  const std::uint64_t group_;
  Lane& lane_;
  std::unique_lock<std::mutex> lock_;  // Of the lane, within an operation.

  struct Greeting {
    int rank, endpoint;
    std::string out, in;
  };

  const std::vector<int> told_hosts_;  // Whose leaders tell this one, and are told; ascending.
  const Call* call_ = nullptr;
  std::uint64_t operation_ = 0;
  std::deque<Flight> flights_;          // Of this operation, but for the first that are done.
  Ticket forgotten_ = 0;                // So many.
  std::vector<std::uint64_t> secrets_;  // Of each rank that it is connected to, and its own: for tags.
  std::vector<Greeting> greetings_;
  std::vector<std::vector<std::byte>> told_;  // By each other leader: a header and its data.
  std::vector<std::byte> telling_;
  std::vector<Ticket> hearing_;  // Of each host's leader.
  std::vector<bool> heard_;
  std::vector<std::string> texts_;  // Of the other leaders, after a divergence.
};

}  // namespace lockstep::collectives
