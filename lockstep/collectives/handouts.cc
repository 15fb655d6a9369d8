// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/handouts.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"
#include "lockstep/collectives/limits.h"

namespace lockstep::collectives {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPoll(50);
constexpr char kBegun = 'b', kThere = 't', kGone = 'g';
constexpr std::size_t kNever = static_cast<std::size_t>(-1);  ///< In place of an offset: not wanted any more.

/// Bytes of one message, which holds a line before them.
constexpr std::size_t kPiece = 30 << 10;
static_assert(kPiece + Handouts::kMaxKey + 64 < kMaxText);
static_assert(Handouts::kWindow > kPiece);

std::string want_text(const std::string& key, std::size_t offset) {
  return fmt::format("{} {}", key, offset);
}

}  // namespace

void Handouts::begin(const std::string& key) {
  if (key.empty() || key.size() > kMaxKey || key.find_first_of(" \n") != key.npos)
    fail("'{}' cannot be the key of a handout: expected a word of up to {} bytes", key, kMaxKey);
  std::lock_guard lock(mutex_);
  Handout& handout = handouts_[key];
  drop(key, handout);
  handout.gone = false;
  handout.begun = true;
  for (const int process : handout.waiting) tell(process, key, kBegun);
}

void Handouts::give(const std::string& key, std::shared_ptr<const SealedBytes> bytes, std::set<int> takers) {
  std::lock_guard lock(mutex_);
  Handout& handout = handouts_[key];
  drop(key, handout);
  handout.begun = true;
  handout.gone = false;
  handout.bytes = std::move(bytes);
  handout.takers = std::move(takers);
  held_.push_back(key);
  const std::vector<int> waiting(handout.waiting.begin(), handout.waiting.end());
  for (const int process : waiting) {
    if (handout.bytes != nullptr) answer(process, key, handout, 0);
  }
  if (held_.size() <= kMostHeld) return;
  const std::string oldest = held_.front();
  drop(oldest, handouts_[oldest]);
}

void Handouts::give_up(const std::string& key) {
  std::lock_guard lock(mutex_);
  Handout& handout = handouts_[key];
  for (const int process : handout.waiting) tell(process, key, kGone);
  handout.waiting.clear();
  drop(key, handout);
  if (!handout.gone) gone_.push_back(key);
  handout.gone = true;
}

/// It no longer keeps bytes. Processes that ask for them later are told so while its key is remembered.
void Handouts::drop(const std::string& key, Handout& handout) {
  if (handout.bytes == nullptr) return;
  handout.bytes = nullptr;
  handout.takers.clear();
  handout.gone = true;
  std::erase(held_, key);
  gone_.push_back(key);
  if (gone_.size() <= kMostRemembered) return;
  const auto oldest = handouts_.find(gone_.front());
  gone_.pop_front();
  if (oldest != handouts_.end() && oldest->second.gone &&
      std::ranges::find(gone_, oldest->first) == gone_.end())
    handouts_.erase(oldest);
}

void Handouts::tell(int process, const std::string& key, char state) {
  ways_.given(process, fmt::format("{} {} 0 0\n", key, state), -1);
}

void Handouts::answer(int process, const std::string& key, Handout& handout, std::size_t offset) {
  const std::string_view bytes = handout.bytes->view();
  if (!ways_.is_remote(process)) {
    try {
      ways_.given(process, fmt::format("{} {} {} 0\n", key, kThere, bytes.size()),
                  handout.bytes->descriptor());
    } catch (const Error& short_of_descriptors) {
      logging::debug("collectives: {}", short_of_descriptors.what());
      tell(process, key, kGone);
    }
    return note_taken(key, handout, process);
  }
  std::size_t at = std::min(offset, bytes.size());
  const std::size_t end = std::min(bytes.size(), at + kWindow);
  do {
    const std::string_view piece = bytes.substr(at, std::min(kPiece, end - at));
    std::string text = fmt::format("{} {} {} {}\n", key, kThere, bytes.size(), at);
    text += piece;
    ways_.given(process, text, -1);
    at += piece.size();
  } while (at < end);
  if (end == bytes.size()) note_taken(key, handout, process);
}

void Handouts::note_taken(const std::string& key, Handout& handout, int process) {
  handout.waiting.erase(process);
  handout.takers.erase(process);
  if (handout.takers.empty()) drop(key, handout);
}

void Handouts::heed_want(int process, std::string_view text) {
  std::string key;
  std::size_t offset = 0;
  if (!(std::istringstream(std::string(text)) >> key >> offset) || key.size() > kMaxKey) return;
  std::lock_guard lock(mutex_);
  if (offset == kNever) {
    const auto it = handouts_.find(key);
    if (it == handouts_.end()) return;
    it->second.waiting.erase(process);
    if (!it->second.begun && it->second.waiting.empty()) handouts_.erase(it);
    return;
  }
  Handout& handout = handouts_[key];
  if (handout.bytes != nullptr) return answer(process, key, handout, offset);
  if (handout.gone) return tell(process, key, kGone);
  handout.waiting.insert(process);
  if (handout.begun) tell(process, key, kBegun);
}

void Handouts::heed_given(int process, std::string_view text, FileDescriptor memory) {
  const std::size_t line = text.find('\n');
  if (line == text.npos) return;
  std::string key;
  char state = 0;
  std::size_t size = 0, offset = 0;
  if (!(std::istringstream(std::string(text.substr(0, line))) >> key >> state >> size >> offset)) return;
  {
    std::lock_guard lock(mutex_);
    const auto it = takings_.find({process, key});
    if (it == takings_.end() || it->second.taken) return;
    Taking& taking = it->second;
    taking.begun = true;
    if (state == kGone) taking.taken = Taken{TakeOutcome::kGone};
    if (state == kThere) {
      try {
        come(process, key, taking, size, offset, text.substr(line + 1), std::move(memory));
      } catch (const Error& trouble) {
        logging::debug("collectives: cannot take what process {} shares: {}", process, trouble.what());
        taking.taken = Taken{TakeOutcome::kGone};
      }
    }
  }
  changed_.notify_all();
}

void Handouts::come(int process, const std::string& key, Taking& taking, std::size_t size, std::size_t offset,
                    std::string_view bytes, FileDescriptor memory) {
  if (!ways_.is_remote(process)) {
    if (!memory) fail("this process has as many open files as it may have (ulimit -n)");
    taking.taken = Taken{TakeOutcome::kTaken, SealedBytes::open(std::move(memory))};
    return;
  }
  if (size > kMostBytes) fail("{} bytes are more than a handout may have", size);
  if (!taking.coming) taking.coming.emplace(size);
  SealedBytes::Writer& coming = *taking.coming;
  if (coming.size() != size || coming.written() != offset) fail("its pieces do not fit together");
  coming.append(bytes);
  if (coming.written() == size) {
    taking.taken = Taken{TakeOutcome::kTaken, coming.seal()};
  } else if (coming.written() % kWindow == 0) {
    ways_.want(process, want_text(key, coming.written()));
  }
}

Taken Handouts::take(int process, const std::string& key, const TakeLimits& limits) {
  if (!ways_.connect(process)) return {TakeOutcome::kGone};
  const TakingKey place{process, key};
  {
    std::lock_guard lock(mutex_);
    if (!takings_.try_emplace(place).second)
      fail("two threads take handout '{}' of process {} at once", key, process);
  }
  /// However the wait ends.
  struct Leave {
    Handouts& of;
    const TakingKey& place;
    ~Leave() {
      std::lock_guard lock(of.mutex_);
      of.takings_.erase(place);
    }
  } leave{*this, place};
  ways_.want(process, want_text(key, 0));
  const auto start = steady_clock::now();
  std::unique_lock lock(mutex_);
  Taking& taking = takings_[place];
  while (true) {
    changed_.wait_for(lock, kPoll, [&] { return taking.taken.has_value(); });
    if (taking.taken) return *taking.taken;
    const bool begun = taking.begun,
               late = steady_clock::now() - start > (begun ? limits.to_finish : limits.to_begin);
    lock.unlock();
    if (!ways_.is_there(process)) return {TakeOutcome::kGone};
    if (late) {
      ways_.want(process, want_text(key, kNever));
      return {begun ? TakeOutcome::kLate : TakeOutcome::kNotBegun};
    }
    lock.lock();
  }
}

std::pair<std::size_t, std::size_t> Handouts::held() const {
  std::lock_guard lock(mutex_);
  return {held_.size(), handouts_.size()};
}

}  // namespace lockstep::collectives
