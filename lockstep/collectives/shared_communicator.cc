#include "lockstep/collectives/shared_communicator.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "lockstep/base/fail.h"
#include "lockstep/collectives/futex.h"
#include "lockstep/collectives/host_layout.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::collectives {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kSleep(50);      ///< Between two looks for failures.
constexpr std::chrono::seconds kTextTimeout(2);      ///< For the other side's text after a divergence.
constexpr std::chrono::microseconds kSpin(200);      ///< Where every member can have a CPU.
constexpr std::chrono::microseconds kShortSpin(10);  ///< Where they share them.

/// Whether a counter that wraps around has come to the target.
bool reached(std::uint32_t value, std::uint32_t target) {
  return static_cast<std::int32_t>(value - target) >= 0;
}

bool reached(const std::atomic<std::uint32_t>& word, std::uint32_t target) {
  return reached(word.load(std::memory_order_acquire), target);
}

/// Counts arrivals at steps number, number-2, …: of the two counters each sees every other step.
std::uint32_t arrivals_target(std::uint64_t number, int members) {
  return static_cast<std::uint32_t>((number + 1) / 2 * static_cast<std::uint64_t>(members));
}

/// Spins until `done` gives true, as long as `worthwhile` does and no longer than `limit`. Gives what `done`
/// gave last.
template <class Done, class Worthwhile>
bool spin(std::chrono::nanoseconds limit, Done done, Worthwhile worthwhile) {
  if (done()) return true;
  const auto end = steady_clock::now() + limit;
  while (worthwhile()) {
    for (int i = 0; i < 64; ++i) {
      spin_pause();
      if (done()) return true;
    }
    if (steady_clock::now() > end) break;
  }
  return false;
}

}  // namespace

SharedCommunicator::SharedCommunicator(Job& job, std::vector<Member> members, Segment segment,
                                       std::vector<const std::byte*> arenas)
    : job_(job),
      members_(std::move(members)),
      segment_(std::move(segment)),
      arenas_(std::move(arenas)),
      central_(segment_.header().central != 0),
      spin_(central_ ? kShortSpin : kSpin),
      locals_(members_.size()) {
  for (Local& local : locals_) {
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
    auto from = static_cast<const std::byte*>(in);
    auto to = static_cast<std::byte*>(out);
    if (call.input_bytes <= kSmallBytes) {
      return run_small(call, rank, from, to);
    }
    ++locals_[rank].operation;
    const bool told = call.input_bytes >= kSingleCopyBytes && call.step_of == 0;
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

void SharedCommunicator::wake_sleepers() {
  SegmentHeader& header = segment_.header();
  for (int i = 0; i < 2; ++i) {
    futex_wake_all(header.posts[i].count);
    futex_wake_all(header.progress[i].count);
  }
  for (int rank = 0; rank < size(); ++rank) {
    MemberWords& words = segment_.words(rank);
    futex_wake_all(words.posts[0].operation);
    futex_wake_all(words.posts[1].operation);
    futex_wake_all(words.progress);
  }
}

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
      rank, segment_.header().posts[number % 2],
      number, [&](MemberWords & words) -> auto& { return words.posts[number % 2].operation; });
}

void SharedCommunicator::wait_for_posts(const Call& call, int rank) {
  const std::uint64_t number = locals_[rank].operation;
  wait_for_all(
      call, rank, segment_.header().posts[number % 2],
      number, [&](MemberWords & words) -> auto& { return words.posts[number % 2].operation; });
  for (int other = 0; other < size(); ++other) {
    const Post& theirs = segment_.words(other).posts[number % 2];
    if (theirs.signature.load(std::memory_order_relaxed) != call.signature) diverged(call, rank);
  }
  // A step of an operation over several hosts says nothing of the other hosts.
  if (call.step_of == 0) watch::all_arrived();
}

void SharedCommunicator::step(int rank) {
  const std::uint64_t number = ++locals_[rank].step;
  arrive(
      rank, segment_.header().progress[number % 2], number,
      [](MemberWords & words) -> auto& { return words.progress; });
}

void SharedCommunicator::wait_for_steps(const Call& call, int rank) {
  const std::uint64_t number = locals_[rank].step;
  wait_for_all(
      call, rank, segment_.header().progress[number % 2], number,
      [](MemberWords & words) -> auto& { return words.progress; });
}

void SharedCommunicator::note_cpu(int rank) {
  auto& cpu = segment_.words(rank).cpu;
  const std::uint32_t now = current_cpu() + 1;
  if (cpu.load(std::memory_order_relaxed) != now) cpu.store(now, std::memory_order_relaxed);
}

template <class Word>
void SharedCommunicator::arrive(int rank, Arrivals& arrivals, std::uint64_t number, Word word) {
  note_cpu(rank);
  MemberWords& words = segment_.words(rank);
  // Sequentially consistent, as is what a sleeper does: either it sees the number, or it is seen to sleep.
  word(words).store(static_cast<std::uint32_t>(number), std::memory_order_seq_cst);
  if (central_) {
    const std::uint32_t count = arrivals.count.fetch_add(1, std::memory_order_seq_cst) + 1;
    if (count == arrivals_target(number, size()) && arrivals.sleepers.load(std::memory_order_seq_cst) != 0) {
      futex_wake_all(arrivals.count);
    }
  } else if (words.sleepers.load(std::memory_order_seq_cst) != 0) {
    futex_wake_all(word(words));
  }
}

template <class Word>
void SharedCommunicator::wait_for_all(const Call& call, int rank, Arrivals& arrivals, std::uint64_t number,
                                      Word word) {
  if (central_) return wait_central(call, rank, arrivals, number, word);
  for (int other = 0; other < size(); ++other) {
    if (other != rank) wait_for_member(call, rank, other, static_cast<std::uint32_t>(number), word);
  }
}

template <class Word>
void SharedCommunicator::wait_for_member(const Call& call, int rank, int other, std::uint32_t number,
                                         Word word) {
  MemberWords& words = segment_.words(other);
  std::atomic<std::uint32_t>& theirs = word(words);
  auto done = [&] { return reached(theirs, number); };
  // To wait for one who needs this very CPU, or does not run, is of no use.
  auto worthwhile = [&] {
    const std::uint32_t cpu = words.cpu.load(std::memory_order_relaxed);
    return cpu != 0 && cpu != current_cpu() + 1;
  };
  if (spin(spin_, done, worthwhile)) return;
  const auto missing = [&](int member) { return !reached(word(segment_.words(member)), number); };
  wait_long(
      call, rank, [&] { sleep(theirs, number, words.sleepers); }, done, missing);
}

template <class Word>
void SharedCommunicator::wait_central(const Call& call, int rank, Arrivals& arrivals, std::uint64_t number,
                                      Word word) {
  const std::uint32_t target = arrivals_target(number, size());
  auto done = [&] { return reached(arrivals.count, target); };
  auto missing = [&](int other) {
    return !reached(word(segment_.words(other)), static_cast<std::uint32_t>(number));
  };
  auto worthwhile = [&] {
    const std::uint32_t here = current_cpu() + 1;
    for (int other = 0; other < size(); ++other) {
      if (segment_.words(other).cpu.load(std::memory_order_relaxed) == here && missing(other)) return false;
    }
    return true;
  };
  if (spin(spin_, done, worthwhile)) return;
  // One that dies between its word and the count has done its part, though the count never says so.
  auto all_there = [&] {
    if (done()) return true;
    for (int other = 0; other < size(); ++other) {
      if (missing(other)) return false;
    }
    return true;
  };
  wait_long(
      call, rank, [&] { sleep(arrivals.count, target, arrivals.sleepers); }, all_there, missing);
}

template <class Sleep, class Done, class Missing>
void SharedCommunicator::wait_long(const Call& call, int rank, Sleep sleep_once, Done done, Missing missing) {
  const std::uint64_t operation =
      call.step_of != 0 ? call.step_of
                        : operation_number(group_number(members_), locals_[rank].operation, call);
  LongWait wait(
      job_, members_[rank].device, operation, [&] { return member_text(rank); }, [&] { return call.text; });
  for (;;) {
    sleep_once();
    if (done()) return;
    job_.check();
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

void SharedCommunicator::sleep(std::atomic<std::uint32_t>& word, std::uint32_t target,
                               std::atomic<std::uint32_t>& sleepers) {
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t value = word.load(std::memory_order_seq_cst);
  if (!reached(value, target)) futex_wait(word, value, kSleep);
  sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

std::string SharedCommunicator::member_text(int rank) const {
  return describe_member(members_, rank, job_.options().process_count);
}

void SharedCommunicator::diverged(const Call& call, int rank) {
  const std::uint64_t operation = locals_[rank].operation;
  const auto number = static_cast<std::uint32_t>(operation);
  MemberWords& own = segment_.words(rank);
  std::strncpy(own.text, call.text.c_str(), kTextBytes - 1);
  own.text_operation.store(number, std::memory_order_release);

  // All tell of the same two: the first member, and the first that differs from it.
  const auto signature = [&](int member) {
    return segment_.words(member).posts[operation % 2].signature.load(std::memory_order_relaxed);
  };
  int second = 1;
  while (second + 1 < size() && signature(second) == signature(0)) ++second;
  const auto end = steady_clock::now() + kTextTimeout;
  const auto text_of = [&](int member) {
    const MemberWords& words = segment_.words(member);
    while (words.text_operation.load(std::memory_order_acquire) != number) {
      if (steady_clock::now() > end) return std::string("another operation, which it did not tell");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return std::string(words.text, strnlen(words.text, kTextBytes));
  };
  const std::string first_text = text_of(0), second_text = text_of(second);
  const std::string message = fmt::format(
      "{} is in {} but {} in {}{}: all processes must run the same programs, on the same shapes, in "
      "the same order",
      member_text(0), first_text, member_text(second), second_text,
      first_text == second_text ? " of a program that differs elsewhere" : "");
  std::vector<std::pair<int, std::uint64_t>> signatures;
  for (int member = 0; member < size(); ++member)
    signatures.emplace_back(members_[member].process, signature(member));
  job_.tell_divergence(signatures, message);
  throw DivergenceError(message);
}

}  // namespace lockstep::collectives
