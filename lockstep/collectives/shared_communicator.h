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

/// A communicator between members of one host, through memory that all of them map (segment.h).
///
/// Operations are numbered from 1. A member begins operation k by writing its post k mod 2; so its post k
/// also says that it has finished operation k-1. An operation consists of steps: a member announces that it
/// has come so far, and waits for all others. The first step is the post, later steps increment `progress`.
///
/// - From kSingleCopyBytes on, the post has the offsets of the member's input and output in its arena
///   (arena.h). If all of them are in arenas, the members read each other's memory in place, and do a further
///   step when they have read it. This is not done in operations over several hosts.
/// - Otherwise an input of up to kSmallBytes is copied to the post or to a buffer beside it, and the post is
///   the only step.
/// - A larger one, or one that was to be read in place and cannot, is copied ("staged") in chunks, to the
///   member's two buffers in turns, with a step for each chunk. When all members have done the step of a
///   chunk, they have read the chunk before it, whose buffer the next chunk overwrites.
class SharedCommunicator : public Communicator {
 public:
  /// `arenas`: for each member a view of its process's arena; null if this process cannot read it.
  SharedCommunicator(Job& job, std::vector<Member> members, Segment segment, std::vector<ArenaView*> arenas);

  int size() const override { return static_cast<int>(members_.size()); }
  const std::vector<Member>& members() const override { return members_; }
  int rank_of(int device) const override;
  void run(const Call& call, int rank, const void* in, void* out) override;

  /// Wakes the threads of this host that wait in an operation, so that they check whether the job has failed.
  void wake_sleepers();

  /// Says that this communicator does a host's part of operations over several hosts, whose members these
  /// are. They must outlive it.
  void belong_to(const std::vector<Member>& members) { all_members_ = &members; }

 private:
  /// The state of a member that belongs to this process.
  struct alignas(64) Local {
    explicit Local(const Crowding& crowding) : patience(crowding) {}

    Patience patience;
    bool busy = false;            ///< a thread is in `run`
    std::uint64_t operation = 0;  ///< the number of the operation that was begun last
    std::uint64_t step = 0;       ///< MemberWords::progress, in 64 bits
    std::uint64_t chunk = 0;      ///< the number of chunks staged in all operations
    // Kept so that an operation allocates nothing.
    std::vector<const void*> sources;               ///< the operands of a reduction, by rank
    std::vector<Term> terms;                        ///< the same, for reductions in another type or order
    std::vector<const std::byte*> inputs, outputs;  ///< of all members, where they are read in place
  };

  // staged.cc
  /// Reduces `count` elements of `local.sources` into `out`, and into `copy` unless it is null. `stream`:
  /// writes past the caches.
  void reduce_sources(const Collective& c, Local& local, std::size_t count, void* out, void* copy,
                      bool stream);
  void run_alone(const Call& call, const void* in, void* out);
  void run_small(const Call& call, int rank, const std::byte* in, std::byte* out);
  /// `posted`: the member has done the first step, in run_direct.
  void run_large_all_reduce(const Call& call, int rank, const std::byte* in, std::byte* out, bool posted);
  void run_large_exchange(const Call& call, int rank, const std::byte* in, std::byte* out, bool posted);

  // direct.cc
  /// Does the first step. If all members can read each other's memory, does the operation; otherwise returns
  /// false.
  bool run_direct(const Call& call, int rank, const std::byte* in, std::byte* out);
  void run_direct_all_reduce(const Call& call, int rank, const std::byte* in, std::byte* out);
  void run_direct_exchange(const Call& call, int rank, const std::byte* in, std::byte* out);

  /// Does a step: announces that this member has come so far, and waits for all others. `first`: the first
  /// step of the operation, its post.
  void meet(const Call& call, int rank, bool first);

  // shared_communicator.cc
  void post(const Call& call, int rank);
  void wait_for_posts(const Call& call, int rank);
  void step(int rank);
  void wait_for_steps(const Call& call, int rank);

  /// Sets the member's word to `number`, and wakes the others if it is the last. `word` returns a reference
  /// to this word of given MemberWords: the number of a post, or `progress`.
  template <class Word>
  void arrive(int rank, std::uint64_t number, Word word);
  /// Waits until the word of each member has reached `number`.
  template <class Word>
  void wait_for_all(const Call& call, int rank, std::uint64_t number, Word word);
  /// Waits until `done()`, asleep; `missing(rank)` says whether that member is awaited. Throws if the job or
  /// one of these members has failed.
  template <class Done, class Missing>
  void sleep_until(const Call& call, int rank, Done done, Missing missing);
  /// Throws the DivergenceError of an operation in which the members' signatures differ.
  [[noreturn]] void diverged(const Call& call, int rank);
  std::string member_text(int rank) const;
  /// Publishes the CPU on which the member runs.
  void note_cpu(int rank);

  Job& job_;
  const std::vector<Member> members_;
  const std::vector<Member>* all_members_ = nullptr;  ///< those of all hosts; null: all are on this one
  Segment segment_;
  const std::vector<ArenaView*> arenas_;
  std::vector<Local> locals_;
  const std::optional<SumTree> tree_;  ///< the order of reductions of floats, if sums are reproducible

  // An operation has failed: all later ones throw the same error.
  std::atomic<bool> broken_ = false;
  std::mutex broken_mutex_;
  std::exception_ptr broken_cause_;
};

}  // namespace lockstep::collectives
