#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/collectives/communicator.h"
#include "lockstep/collectives/job.h"
#include "lockstep/collectives/patience.h"
#include "lockstep/collectives/segment.h"

namespace lockstep::collectives {

/// A communicator over memory that all its members map.
///
/// Operations are numbered from 1. A member takes part in operation k by filling its post k mod 2 and then
/// writing k into it; that a post k is seen says that its member has done all of operation k-1. An input of
/// up to kSmallBytes is in the post or in a buffer beside it, so that one step is all. A larger one goes
/// through in chunks: the member stages chunk after chunk, each in the one of its two buffers that it did not
/// use for the chunk before, over all operations, and steps: the first step of an operation is the post, the
/// others raise `progress`. Before a member stages a chunk it has seen all members' step for the chunk
/// before, whence they have read the one before that.
///
/// From kSingleCopyBytes on members first tell each other where their input and output are. Where all of
/// these are in arenas (arena.h), each reads the others' where they are, and nothing is staged.
class SharedCommunicator : public Communicator {
 public:
  /// `arenas` says for each member where this process can read its arena; null where it cannot.
  SharedCommunicator(Job& job, std::vector<Member> members, Segment segment,
                     std::vector<const std::byte*> arenas);

  int size() const override { return static_cast<int>(members_.size()); }
  const std::vector<Member>& members() const override { return members_; }
  int rank_of(int device) const override;
  void run(const Call& call, int rank, const void* in, void* out) override;

  /// Wakes whoever sleeps, to look for failures.
  void wake_sleepers();

 private:
  /// How far a local member is.
  struct alignas(64) Local {
    explicit Local(const Crowding& crowding) : patience(crowding) {}

    Patience patience;
    bool busy = false;  ///< A thread is in `run`.
    std::uint64_t operation = 0;
    std::uint64_t step = 0;   ///< Value of `progress`.
    std::uint64_t chunk = 0;  ///< Chunks staged.
    std::vector<const void*> sources;
    std::vector<const std::byte*> inputs, outputs;  ///< All members', in a direct operation.
  };

  // staged.cc
  void run_alone(const Call& call, const void* in, void* out);
  void run_small(const Call& call, int rank, const std::byte* in, std::byte* out);
  /// `posted`: the first step has been taken.
  void run_large_all_reduce(const Call& call, int rank, const std::byte* in, std::byte* out, bool posted);
  void run_large_exchange(const Call& call, int rank, const std::byte* in, std::byte* out, bool posted);

  // direct.cc
  /// Takes the first step, and does the operation if all can read all.
  bool run_direct(const Call& call, int rank, const std::byte* in, std::byte* out);
  void run_direct_all_reduce(const Call& call, int rank, const std::byte* in, std::byte* out);
  void run_direct_exchange(const Call& call, int rank, const std::byte* in, std::byte* out);

  /// Begins an operation, or takes its next step: says that this member has come so far, and waits for all
  /// others.
  void meet(const Call& call, int rank, bool first);

  // shared_communicator.cc
  void post(const Call& call, int rank);
  void wait_for_posts(const Call& call, int rank);
  void step(int rank);
  void wait_for_steps(const Call& call, int rank);

  /// `word` gives a member's atomic number of the kind that is raised to `number` here.
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
  Segment segment_;
  const std::vector<const std::byte*> arenas_;
  std::vector<Local> locals_;

  std::atomic<bool> broken_ = false;
  std::mutex broken_mutex_;
  std::exception_ptr broken_cause_;
};

}  // namespace lockstep::collectives
