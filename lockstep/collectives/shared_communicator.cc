// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/shared_communicator.h"

#include <algorithm>
#include <thread>

#include "lockstep/base/fail.h"
#include "lockstep/collectives/futex.h"
#include "lockstep/collectives/host_layout.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::collectives {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kSleep(50);  ///< Between two looks for failures.
constexpr std::chrono::seconds kTextTimeout(2);  ///< For the other side's text after a divergence.

/// Whether a counter that wraps around has reached the target.
bool reached(std::uint32_t value, std::uint32_t target) {
  return static_cast<std::int32_t>(value - target) >= 0;
}

/// Marks a member as busy while it exists. Two threads that drive one member at the same time would mix the
/// data of two operations, and neither would end.
class Turn {
 public:
  Turn(bool& busy, const Call& call) : busy_(busy) {
    if (busy_.exchange(true, std::memory_order_acquire)) {
      fail_internally(
          "{}: the device is in another collective of this group at the same time, but all collectives of a "
          "device have one order",
          call.text);
    }
  }
  ~Turn() { busy_.store(false, std::memory_order_release); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::atomic_ref<bool> busy_;
};

}  // namespace

SharedCommunicator::SharedCommunicator(Job& job, std::vector<Member> members, Segment segment,
                                       std::vector<ArenaView*> arenas)
    : job_(job),
      members_(std::move(members)),
      segment_(std::move(segment)),
      arenas_(std::move(arenas)),
      tree_(job.options().reproducible_sums ? std::optional(SumTree(size())) : std::nullopt) {
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    Local& local = locals_.emplace_back(job.peers().crowding());
    local.sources.resize(members_.size());
    local.inputs.resize(members_.size());
    local.outputs.resize(members_.size());
  }
}

int SharedCommunicator::rank_of(int device) const {
  for (int rank = 0; rank < size(); ++rank) {
    if (members_[rank].device == device) return rank;
  }
  return -1;
}

void SharedCommunicator::run(const Call& call, int rank, const void* in, void* out) {
  if (broken_.load(std::memory_order_acquire)) std::rethrow_exception(broken_cause_);
  job_.check();
  if (size() == 1) return run_alone(call, in, out);
  try {
    const Turn turn(locals_[rank].busy, call);
    auto from = static_cast<const std::byte*>(in);
    auto to = static_cast<std::byte*>(out);
    const bool told = call.input_bytes >= kSingleCopyBytes && call.step_of.number == 0;
    if (!told && call.input_bytes <= kSmallBytes) return run_small(call, rank, from, to);
    ++locals_[rank].operation;
    if (told && run_direct(call, rank, from, to)) return;
    if (call.collective.kind == Kind::kAllReduce)
      run_large_all_reduce(call, rank, from, to, told);
    else
      run_large_exchange(call, rank, from, to, told);
  } catch (...) {
    std::lock_guard lock(broken_mutex_);
    if (!broken_) {
      broken_cause_ = std::current_exception();
      broken_.store(true, std::memory_order_release);
    }
    throw;
  }
}

void SharedCommunicator::wake_sleepers() { futex_wake_all(segment_.header().wakes); }

void SharedCommunicator::meet(const Call& call, int rank, bool first) {
  if (first) {
    post(call, rank);
    wait_for_posts(call, rank);
  } else {
    step(rank);
    wait_for_steps(call, rank);
  }
}

void SharedCommunicator::post(const Call& call, int rank) {
  const std::uint64_t number = locals_[rank].operation;
  segment_.words(rank).posts[number % 2].signature.store(call.signature, std::memory_order_relaxed);
  arrive(
      rank, number, [&](MemberWords & words) -> auto& { return words.posts[number % 2].operation; });
}

void SharedCommunicator::wait_for_posts(const Call& call, int rank) {
  const std::uint64_t number = locals_[rank].operation;
  wait_for_all(
      call, rank, number, [&](MemberWords & words) -> auto& { return words.posts[number % 2].operation; });
  for (int other = 0; other < size(); ++other) {
    const Post& theirs = segment_.words(other).posts[number % 2];
    if (theirs.signature.load(std::memory_order_relaxed) != call.signature) diverged(call, rank);
  }
  // All have finished the operation before, and so read this member's other post: the next one is written
  // there.
  own_line(&segment_.words(rank).posts[(number + 1) % 2]);
  // A step of an operation over several hosts says nothing about the other hosts.
  if (call.step_of.number == 0) watch::all_arrived();
}

void SharedCommunicator::step(int rank) {
  const std::uint64_t number = ++locals_[rank].step;
  arrive(
      rank, number, [](MemberWords & words) -> auto& { return words.progress; });
}

void SharedCommunicator::wait_for_steps(const Call& call, int rank) {
  const std::uint64_t number = locals_[rank].step;
  wait_for_all(
      call, rank, number, [](MemberWords & words) -> auto& { return words.progress; });
}

void SharedCommunicator::note_cpu(int rank) {
  auto& cpu = segment_.words(rank).cpu;
  const std::uint32_t now = current_cpu() + 1;
  if (cpu.load(std::memory_order_relaxed) != now) cpu.store(now, std::memory_order_relaxed);
}

template <class Word>
void SharedCommunicator::arrive(int rank, std::uint64_t number, Word word) {
  note_cpu(rank);
  const auto target = static_cast<std::uint32_t>(number);
  // Sequentially consistent, like the sleeper's operations: either it sees the number, or it is seen to
  // sleep. Of two members that arrive at the same time one sees both.
  word(segment_.words(rank)).store(target, std::memory_order_seq_cst);
  SegmentHeader& header = segment_.header();
  if (header.sleepers.load(std::memory_order_seq_cst) == 0) return;
  for (int other = 0; other < size(); ++other) {
    if (!reached(word(segment_.words(other)).load(std::memory_order_seq_cst), target)) return;
  }
  header.wakes.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(header.wakes);
}

template <class Word>
void SharedCommunicator::wait_for_all(const Call& call, int rank, std::uint64_t number, Word word) {
  const auto target = static_cast<std::uint32_t>(number);
  const auto missing = [&](int other) {
    return !reached(word(segment_.words(other)).load(std::memory_order_seq_cst), target);
  };
  int awaited = 0;  // All before it have come.
  const auto done = [&] {
    while (awaited < size() && !missing(awaited)) ++awaited;
    return awaited == size();
  };
  const auto awaited_on = [&](std::uint32_t cpu) {
    for (int other = awaited; other < size(); ++other) {
      const std::uint32_t theirs = segment_.words(other).cpu.load(std::memory_order_relaxed);
      if ((theirs == cpu || theirs == 0) && missing(other)) return true;
    }
    return false;
  };
  if (locals_[rank].patience.wait(done, awaited_on)) return;
  sleep_until(call, rank, done, missing);
}

template <class Done, class Missing>
void SharedCommunicator::sleep_until(const Call& call, int rank, Done done, Missing missing) {
  const Operation operation = call.step_of.number != 0
                                  ? call.step_of
                                  : operation_of(group_number(members_), locals_[rank].operation, call);
  LongWait wait(
      job_, members_[rank].device, operation, [&] { return member_text(rank); }, [&] { return call.text; },
      all_members_);
  SegmentHeader& header = segment_.header();
  for (;;) {
    header.sleepers.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t wakes = header.wakes.load(std::memory_order_seq_cst);
    if (!done()) futex_wait(header.wakes, wakes, kSleep);
    header.sleepers.fetch_sub(1, std::memory_order_seq_cst);
    if (done()) return;
    job_.check();
    // Another member, of this process, has given up.
    if (broken_.load(std::memory_order_acquire)) std::rethrow_exception(broken_cause_);
    std::vector<int> awaited;
    for (int other = 0; other < size(); ++other) {
      if (other == rank || !missing(other)) continue;
      job_.check_peer(members_[other].process,
                      fmt::format("process {} waited for it in {}", members_[rank].process, call.text),
                      [&] { return missing(other); });
      awaited.push_back(members_[other].device);
    }
    wait.look(awaited);
  }
}

std::string SharedCommunicator::member_text(int rank) const {
  return describe_member(members_, rank, job_.options().process_count);
}

void SharedCommunicator::diverged(const Call& call, int rank) {
  const std::uint64_t operation = locals_[rank].operation;
  const auto number = static_cast<std::uint32_t>(operation);
  MemberWords& own = segment_.words(rank);
  set_text(own, call.text);
  own.text_operation.store(number, std::memory_order_release);

  // All report the same two: the first member, and the first that differs from it.
  const auto signature = [&](int member) {
    return segment_.words(member).posts[operation % 2].signature.load(std::memory_order_relaxed);
  };
  int second = 1;
  while (second + 1 < size() && signature(second) == signature(0)) ++second;
  const auto end = steady_clock::now() + kTextTimeout;
  const auto wait_for_text = [&](int member) {
    const MemberWords& words = segment_.words(member);
    while (words.text_operation.load(std::memory_order_acquire) != number) {
      if (steady_clock::now() > end) return std::string("another operation, which it did not name");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return text_of(words);
  };
  const std::string first_text = wait_for_text(0), second_text = wait_for_text(second);
  const std::string message = fmt::format(
      "{} is in {} but {} in {}{}: all processes must run the same programs, on the same shapes, in "
      "the same order",
      member_text(0), first_text, member_text(second), second_text,
      first_text == second_text ? " of a program that differs elsewhere" : "");
  std::vector<std::pair<int, std::uint64_t>> signatures;
  for (int member = 0; member < size(); ++member)
    signatures.emplace_back(members_[member].process, signature(member));
  job_.diverge(signatures, message);
}

}  // namespace lockstep::collectives
