// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/stall.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/collectives/job.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::collectives {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLong(700);  ///< A wait shorter than this asks nobody.
/// The time between a question and reading its answers: at first, and after kQuickRounds rounds increasingly
/// up to the longest, because all waiting processes ask all those to which they are connected.
constexpr std::chrono::milliseconds kRound(300), kLongestRound(5000);
constexpr std::uint64_t kQuickRounds = 5;

constexpr char kMoreFollow = '+', kLastPart = '.';

/// Where the device that another one waits for is.
enum class Place {
  kElsewhere,  ///< It has not come to the operation.
  kThere,      ///< It is in the same operation.
  kGoneOn,     ///< What it sent is on its way.
};

Place place_of(const Wait& awaited, const Wait& waiting) {
  const Operation &theirs = awaited.operation, &ours = waiting.operation;
  if (ours.number == 0) return Place::kElsewhere;
  if (theirs.number == ours.number) return Place::kThere;
  const auto begun = awaited.begun.find(ours.group);
  if (begun == awaited.begun.end()) return Place::kElsewhere;
  if (begun->second > ours.count) return Place::kGoneOn;
  // At the same place with another call, it is elsewhere.
  return begun->second == ours.count && theirs.group != ours.group ? Place::kGoneOn : Place::kElsewhere;
}

/// Whether each thread of the ring has looked since, so that none only waits for a processor.
bool have_looked(const std::vector<Wait>& ring, const std::vector<Wait>& before) {
  return std::equal(ring.begin(), ring.end(), before.begin(), before.end(),
                    [](const Wait& now, const Wait& then) { return now == then && now.looks > then.looks; });
}

/// Extends `path` to a way along missing devices back to its first wait. `elsewhere`: some device of the path
/// has not come to the operation in which the one before it waits. A ring without such a device is one
/// operation, whose data are on their way.
bool close_ring(const std::vector<Wait>& waits, std::set<std::pair<int, bool>>& seen, std::vector<Wait>& path,
                bool elsewhere) {
  for (int missing : path.back().missing) {
    const auto same_device = [&](const Wait& wait) { return wait.device == missing; };
    const bool closes = missing == path.front().device;
    // A device that waits twice is driven by two threads, of which one may help the other.
    if (!closes && std::count_if(waits.begin(), waits.end(), same_device) != 1) continue;
    const Wait next = closes ? path.front() : *std::find_if(waits.begin(), waits.end(), same_device);
    const Place place = place_of(next, path.back());
    if (place == Place::kGoneOn) continue;
    const bool some_elsewhere = elsewhere || place == Place::kElsewhere;
    if (closes && some_elsewhere) return true;
    if (closes || !seen.emplace(missing, some_elsewhere).second) continue;
    path.push_back(next);
    if (close_ring(waits, seen, path, some_elsewhere)) return true;
    path.pop_back();
  }
  return false;
}

}  // namespace

std::vector<Wait> find_ring(const std::vector<Wait>& waits, int device, const std::vector<Member>& members) {
  for (const Wait& wait : waits) {
    if (wait.device != device) continue;
    std::vector<Wait> path = {wait};
    std::set<std::pair<int, bool>> seen;
    if (!close_ring(waits, seen, path, false)) {
      for (const Member& member : members)
        if (member.device != device) path.front().missing.push_back(member.device);
      seen.clear();
      if (members.empty() || !close_ring(waits, seen, path, false)) return {};
    }
    const auto lower = [](const Wait& a, const Wait& b) { return a.device < b.device; };
    std::rotate(path.begin(), std::min_element(path.begin(), path.end(), lower), path.end());
    return path;
  }
  return {};
}

std::string describe_ring(const std::vector<Wait>& ring) {
  std::string text;
  for (std::size_t i = 0; i < ring.size(); ++i) {
    if (i != 0) text += i + 1 == ring.size() ? " but " : ", ";
    text += fmt::format("{} waits for {} in {}", ring[i].who, ring[(i + 1) % ring.size()].who, ring[i].text);
  }
  return text + ": all processes must run the same programs, on the same shapes, in the same order";
}

std::string encode(const std::vector<Wait>& waits) {
  std::ostringstream out;
  for (const Wait& wait : waits) {
    const Operation& operation = wait.operation;
    out << wait.device << ' ' << wait.id << ' ' << operation.number << ' ' << operation.group << ' '
        << operation.count << ' ' << wait.looks << ' ' << wait.missing.size() << ' ' << wait.begun.size();
    for (int device : wait.missing) out << ' ' << device;
    for (const auto& [group, count] : wait.begun) out << ' ' << group << ' ' << count;
    out << '\n' << wait.who << '\n' << wait.text << '\n';
  }
  return out.str();
}

std::vector<Wait> decode(const std::string& text) {
  std::vector<Wait> waits;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    std::istringstream numbers(line);
    Wait wait;
    Operation& operation = wait.operation;
    std::size_t missing = 0, groups = 0;
    numbers >> wait.device >> wait.id >> operation.number >> operation.group >> operation.count >>
        wait.looks >> missing >> groups;
    for (int device; missing > 0 && numbers >> device; --missing) wait.missing.push_back(device);
    for (std::uint64_t group, count; groups > 0 && numbers >> group >> count; --groups)
      wait.begun[group] = count;
    if (numbers.fail() || !std::getline(in, wait.who) || !std::getline(in, wait.text)) break;
    waits.push_back(std::move(wait));
  }
  return waits;
}

std::vector<std::string> split_text(std::string_view text, std::size_t most) {
  std::vector<std::string> messages;
  do {
    const std::string_view part = text.substr(0, most - 1);
    text.remove_prefix(part.size());
    messages.push_back((text.empty() ? kLastPart : kMoreFollow) + std::string(part));
  } while (!text.empty());
  return messages;
}

std::optional<std::string> SplitText::take(std::string_view message) {
  const char mark = message.empty() ? '\0' : message.front();
  if ((mark != kLastPart && mark != kMoreFollow) || text_.size() + message.size() > kMostBytes) {
    text_.clear();
    return std::nullopt;
  }
  text_ += message.substr(1);
  if (mark == kMoreFollow) return std::nullopt;
  return std::exchange(text_, {});
}

std::uint64_t WaitTable::next_id() {
  std::lock_guard lock(mutex_);
  return ++last_id_;
}

void WaitTable::note(const Wait& wait) {
  std::lock_guard lock(mutex_);
  waits_[wait.id] = wait;
}

void WaitTable::forget(const Wait& wait) {
  std::lock_guard lock(mutex_);
  waits_.erase(wait.id);
}

std::vector<Wait> WaitTable::list() const {
  std::lock_guard lock(mutex_);
  std::vector<Wait> list;
  for (const auto& [id, wait] : waits_) list.push_back(wait);
  return list;
}

std::shared_ptr<std::atomic<std::uint64_t>> WaitTable::count_of(int device, std::uint64_t group) {
  std::lock_guard lock(mutex_);
  auto& count = counts_[device][group];
  if (count == nullptr) count = std::make_shared<std::atomic<std::uint64_t>>(0);
  return count;
}

std::map<std::uint64_t, std::uint64_t> WaitTable::begun(int device) const {
  std::lock_guard lock(mutex_);
  std::map<std::uint64_t, std::uint64_t> begun;
  const auto counts = counts_.find(device);
  if (counts == counts_.end()) return begun;
  for (const auto& [group, count] : counts->second) begun[group] = count->load(std::memory_order_relaxed);
  return begun;
}

LongWait::LongWait(Job& job, int device, const Operation& operation, std::function<std::string()> who,
                   std::function<std::string()> text, const std::vector<Member>* members)
    : job_(job), who_(std::move(who)), text_(std::move(text)), members_(members), round_(kRound) {
  wait_.device = device;
  wait_.operation = operation;
}

LongWait::~LongWait() {
  if (wait_.id == 0) return;
  job_.waits().forget(wait_);
  watch::waits_no_more();
}

void LongWait::look(const std::vector<int>& missing) {
  const auto now = steady_clock::now();
  if (wait_.id == 0) {
    wait_.id = job_.waits().next_id();
    wait_.who = who_();
    wait_.text = text_();
    next_ = now + kLong;
  }
  ++wait_.looks;
  wait_.missing = missing;
  wait_.begun = job_.waits().begun(wait_.device);
  job_.waits().note(wait_);
  std::vector<int> processes;
  for (const int device : missing) {
    const int process = job_.options().device_process[device];
    if (process != job_.options().process_index && std::ranges::find(processes, process) == processes.end())
      processes.push_back(process);
  }
  watch::waits_for(processes, wait_.operation.number, wait_.operation.group, wait_.operation.count);
  if (now < next_) return;

  if (asked_ != TimePoint()) {
    std::vector<Wait> waits = job_.peers().heard_waits(asked_);
    for (Wait& wait : job_.waits().list()) waits.push_back(std::move(wait));
    std::vector<Wait> ring =
        find_ring(waits, wait_.device, members_ != nullptr ? *members_ : std::vector<Member>());
    if (!ring.empty() && have_looked(ring, ring_)) {
      const std::string message = describe_ring(ring);
      std::vector<std::pair<int, std::uint64_t>> in_ring;
      // Each does something else than the next.
      for (std::size_t i = 0; i < ring.size(); ++i)
        in_ring.emplace_back(job_.options().device_process[ring[i].device], i);
      job_.diverge(in_ring, message);
    }
    ring_ = std::move(ring);
  }
  asked_ = now;
  if (++rounds_ > kQuickRounds) round_ = std::min(2 * round_, kLongestRound);
  next_ = now + round_;
  job_.peers().ask_for_waits();
}

}  // namespace lockstep::collectives
