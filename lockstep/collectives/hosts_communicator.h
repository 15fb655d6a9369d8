// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/collectives/communicator.h"
#include "lockstep/collectives/host_layout.h"
#include "lockstep/collectives/job.h"
#include "lockstep/collectives/shared_communicator.h"
#include "lockstep/collectives/wire.h"
#include "lockstep/collectives/wire_carrier.h"

namespace lockstep::collectives {

/// A communicator whose members are on several hosts. Members on the same host use shared memory; between
/// hosts each member has a Wire.
///
/// If the inputs of all members together have up to kSmallBytes, the first member of each host, its leader,
/// collects the inputs of its host, exchanges them with the other leaders in one step, and distributes them:
/// each member then computes its result from the inputs of all. Larger reductions are first done within each
/// host, in chunks; each member carries its part of a chunk to the other hosts. Sums are then added in rank
/// order within each host, and host by host, in the same way for all members.
class HostsCommunicator : public Communicator {
 public:
  /// `local` is the communicator of the members on this host, in their order; null if there is only one.
  HostsCommunicator(Job& job, std::vector<Member> members, HostLayout layout,
                    std::unique_ptr<SharedCommunicator> local);

  int size() const override { return static_cast<int>(members_.size()); }
  const std::vector<Member>& members() const override { return members_; }
  int rank_of(int device) const override;
  void run(const Call& call, int rank, const void* in, void* out) override;

  /// Wakes threads that sleep for a member of this host, to look for failures.
  void wake_sleepers();

 private:
  /// The role of one member in a permute.
  struct PermutePlan {
    int target = -1, source = -1;           ///< ranks; -1 if it sends or receives nothing
    std::vector<std::pair<int, int>> here;  ///< the pairs within this host, by index among its ranks
  };

  /// The data that one member keeps for a call, by its signature.
  struct Plan {
    std::string text;
    bool connected = false;                             ///< the connections that the call needs exist
    std::optional<PermutePlan> permute;                 ///< set if it is a permute
    std::set<std::pair<Kind, std::size_t>> exchanges;   ///< the exchanges of which it consists
    std::map<std::array<std::int64_t, 4>, Call> steps;  ///< the intermediate collectives of this host's
                                                        ///< members
  };

  /// A member keeps no more plans, and makes them again: a process may launch ever new programs.
  static constexpr std::size_t kMostPlans = 2048;

  static constexpr int kScheduleScratch = 2;  ///< this index and the following ones
  static constexpr int kLastScratch = 5;

  struct Local {
    std::unique_ptr<Wire> wire;
    std::map<std::uint64_t, Plan> plans;
    std::array<std::vector<std::byte>, kLastScratch + 1> scratch;
  };

  /// In a larger group a member sends only to some of the others, which forward the data.
  static constexpr int kMostPartners = 64;

  /// One operation of one member.
  struct Task {
    const Call& call;
    const int rank, index;  ///< in the group; among the members of this host
    const std::byte* in;
    std::byte* out;
    Local& local;
    Plan& plan;

    Wire& wire() const { return *local.wire; }
    /// Memory that is kept until the member's next operation.
    std::byte* scratch(int which, std::size_t bytes) const;
  };
  class AllReduce;
  struct Slices;

  // hosts_communicator.cc
  void run_small(const Task& task);
  void run_large(const Task& task);
  void gather_between_leaders(const Task& task, const std::byte* own, std::size_t bytes, std::byte* all);
  void combine(const Task& task, const std::byte* inputs) const;
  std::vector<int> partners(const Call& call, int rank) const;
  /// A collective of this host's members as a part of the operation. `collective` is complete except for its
  /// description; `count` may be 0.
  void run_local(const Task& task, const Collective& collective, const void* in, void* out);
  void gather(const Task& task, const void* in, void* out, std::size_t bytes);
  void spread(const Task& task, const void* in, void* out, std::size_t bytes, int root);
  void fail_all(std::exception_ptr cause);

  // hosts_all_reduce.cc
  void run_all_reduce(const Task& task);

  // hosts_by_rounds.cc
  void run_reduce_scatter(const Task& task);
  void run_all_gather(const Task& task);
  void run_all_to_all(const Task& task);
  void run_all_to_all_together(const Task& task);
  void run_all_to_all_alone(const Task& task, std::size_t part);
  bool goes_together(std::size_t part) const;
  bool goes_directly(std::size_t part) const;
  void run_broadcast(const Task& task);
  /// A collective between hosts, of this member and the members with the same index on other hosts, by the
  /// algorithm from the table (Exchange). In a broadcast the participants are the root and the leaders of the
  /// other hosts. `bytes` are those of a part of the result.
  void exchange(const Task& task, Kind kind, std::size_t bytes, const std::byte* in, std::byte* out,
                int root = 0);
  std::unique_ptr<Schedule> schedule_for(const Task& task, Kind kind, std::size_t bytes, int root = 0) const;
  /// Between the hosts. Where a host has several members, it has partial results of them.
  SumTypes types_for(const Task& task, Kind kind) const;
  /// Whether the reduction has the order of `blocks_`. Then each member of a host that takes part in an
  /// exchange has the others' inputs, and sums each of the host's blocks.
  bool is_in_fixed_order(const Task& task, Kind kind) const;
  std::size_t own_blocks() const { return blocks_->blocks[static_cast<std::size_t>(host_)].size(); }
  /// Partial results of each block of this host, one after the other, of the members' `count` elements, those
  /// of a member `stride` bytes behind those of the one before.
  void sum_blocks(const Task& task, const std::byte* in, std::size_t stride, std::size_t count,
                  std::byte* out) const;
  /// Connects to the members with which this member exchanges messages in it.
  void connect_for(const Task& task, Kind kind, std::size_t bytes, int root = 0);
  WireCarrier carrier_for(const Task& task, Kind kind) const;

  // hosts_uneven.cc
  void run_uneven_reduce_scatter(const Task& task);
  void run_uneven_all_gather(const Task& task);
  void run_uneven_all_to_all(const Task& task);
  void run_direct_all_to_all(const Task& task);
  PermutePlan plan_permute(const Collective& c, int rank) const;
  void run_permute(const Task& task);

  /// The row of a rank, if each host has as many rows as the largest one has members.
  std::size_t row_of(int rank) const {
    return static_cast<std::size_t>(layout_.host_of[rank] * layout_.most + layout_.index_of[rank]);
  }

  int local_count() const { return layout_.local_count(host_); }
  bool is_one_a_host() const { return size() == layout_.host_count(); }

  Job& job_;
  const std::vector<Member> members_;
  const HostLayout layout_;
  const int host_;  ///< this host
  const std::unique_ptr<SharedCommunicator> local_;
  const std::optional<HostBlocks> blocks_;      ///< set if reductions of floats have a fixed order
  const std::optional<SumTree> tree_;           ///< the same, of all members
  std::vector<std::unique_ptr<Local>> locals_;  ///< by rank; null for members of other processes

  std::atomic<bool> broken_ = false;
  std::mutex broken_mutex_;
  std::exception_ptr broken_cause_;
};

}  // namespace lockstep::collectives
