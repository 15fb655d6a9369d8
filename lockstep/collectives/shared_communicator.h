// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "lockstep/collectives/arena.h"
#include "lockstep/collectives/communicator.h"
#include "lockstep/collectives/job.h"
#include "lockstep/collectives/patience.h"
#include "lockstep/collectives/reduce.h"
#include "lockstep/collectives/segment.h"

namespace lockstep::collectives {

/// A communicator that uses memory that all its members map.
///
/// Operations are numbered from 1. A member takes part in operation k by filling its post k mod 2 and then
/// writing k into it; a visible post k means that its member has finished operation k-1. An input of up to
/// kSmallBytes is in the post or in a buffer beside it, so that one step is sufficient. A larger input is
/// sent in chunks. The member stages chunk after chunk, alternately in its two buffers over all operations,
/// and makes steps: the first step of an operation is the post, the others increment `progress`. Before a
/// member stages a chunk, it has seen all members' step for the previous chunk, which means that they have
/// read the one before that.
///
/// From kSingleCopyBytes on, members first tell each other the addresses of their inputs and outputs. If all
/// of these are in arenas (arena.h), each member reads the others' inputs in place, and nothing is staged.
class SharedCommunicator : public Communicator {
 public:
  /// `arenas`: for each member, its arena as this process can read it; null if it cannot.
  SharedCommunicator(Job& job, std::vector<Member> members, Segment segment, std::vector<ArenaView*> arenas);

  int size() const override { return static_cast<int>(members_.size()); }
  const std::vector<Member>& members() const override { return members_; }
  int rank_of(int device) const override;
  void run(const Call& call, int rank, const void* in, void* out) override;

  /// Wakes sleeping threads, to look for failures.
  void wake_sleepers();

  /// The operations are steps of ones over several hosts, with these members, which must outlive it.
  void belong_to(const std::vector<Member>& members) { all_members_ = &members; }

 private:
  /// The progress of a local member.
  struct alignas(64) Local {
    explicit Local(const Crowding& crowding) : patience(crowding) {}

    Patience patience;
    bool busy = false;  ///< a thread is in `run`
    std::uint64_t operation = 0;
    std::uint64_t step = 0;                         ///< the value of `progress`
    std::uint64_t chunk = 0;                        ///< chunks staged
    std::vector<const void*> sources;               ///< of a reduction, by rank
    std::vector<Term> terms;                        ///< the same
    std::vector<const std::byte*> inputs, outputs;  ///< of all members, in a direct operation
  };

  // staged.cc
  /// Reduces `count` elements of the members' data, which `local.sources` has. `copy` may be null.
  void reduce_sources(const Collective& c, Local& local, std::size_t count, void* out, void* copy,
                      bool stream);
  void run_alone(const Call& call, const void* in, void* out);
  void run_small(const Call& call, int rank, const std::byte* in, std::byte* out);
  /// `posted`: the first step was done before.
  void run_large_all_reduce(const Call& call, int rank, const std::byte* in, std::byte* out, bool posted);
  void run_large_exchange(const Call& call, int rank, const std::byte* in, std::byte* out, bool posted);

  // direct.cc
  /// Takes the first step, and does the operation if all can read all.
  bool run_direct(const Call& call, int rank, const std::byte* in, std::byte* out);
  void run_direct_all_reduce(const Call& call, int rank, const std::byte* in, std::byte* out);
  void run_direct_exchange(const Call& call, int rank, const std::byte* in, std::byte* out);

  /// Begins an operation, or makes its next step: announces that this member has come so far, and waits for
  /// all others.
  void meet(const Call& call, int rank, bool first);

  // shared_communicator.cc
  void post(const Call& call, int rank);
  void wait_for_posts(const Call& call, int rank);
  void step(int rank);
  void wait_for_steps(const Call& call, int rank);

  /// `word` returns a member's atomic number that is set to `number` here.
  template <class Word>
  void arrive(int rank, std::uint64_t number, Word word);
  template <class Word>
  void wait_for_all(const Call& call, int rank, std::uint64_t number, Word word);
  template <class Done, class Missing>
  void sleep_until(const Call& call, int rank, Done done, Missing missing);
  [[noreturn]] void diverged(const Call& call, int rank);
  std::string member_text(int rank) const;
  void note_cpu(int rank);

  Job& job_;
  const std::vector<Member> members_;
  const std::vector<Member>* all_members_ = nullptr;  ///< of all hosts
  Segment segment_;
  const std::vector<ArenaView*> arenas_;
  std::vector<Local> locals_;
  const std::optional<SumTree> tree_;  ///< the order of reductions of floats, if it must be this

  std::atomic<bool> broken_ = false;
  std::mutex broken_mutex_;
  std::exception_ptr broken_cause_;
};

}  // namespace lockstep::collectives
