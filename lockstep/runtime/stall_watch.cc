// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/stall_watch.h"

#include <algorithm>
#include <set>

#include "lockstep/base/fail.h"
#include "lockstep/base/json.h"
#include "lockstep/base/log.h"
#include "lockstep/watch/diagnosis.h"
#include "lockstep/watch/proc_state.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLook(1000);
constexpr milliseconds kForAnswers(3000);  // of those that can answer
constexpr milliseconds kBetweenAnswers(50);
constexpr milliseconds kForOthers(5000);  // while another process asks, twice, and decides
constexpr milliseconds kForShare(200);    // for which the share of a core is measured
constexpr int kFewProcesses = 64;         // with so many, the logs of launches go into the answers

std::string question_key(std::int64_t question) {
  return fmt::format("lockstep/stall/question/{}", question);
}
std::string answers_key(std::int64_t question) { return fmt::format("lockstep/stall/answers/{}", question); }

}  // namespace

struct StallWatch::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false;
  std::int64_t asked = 0;  ///< The last question that came.
};

StallWatch::StallWatch(coordination::CoordinationClient& client, std::string host, StallWatchOptions options)
    : client_(client),
      host_(std::move(host)),
      options_(std::move(options)),
      shared_(std::make_shared<Shared>()),
      reader_(*watch::memory()) {
  listen(question_);
  thread_ = std::thread([this] { run(); });
}

StallWatch::~StallWatch() {
  {
    std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
  }
  shared_->changed.notify_all();
  thread_.join();
  say_end();
}

void StallWatch::listen(std::int64_t question) {
  client_.when_set(question_key(question),
                   [shared = shared_, question](const std::optional<std::string>& value) {
                     if (!value) return;
                     {
                       std::lock_guard lock(shared->mutex);
                       shared->asked = std::max(shared->asked, question);
                     }
                     shared->changed.notify_all();
                   });
}

void StallWatch::say_end() {
  if (said_.empty()) return;
  logging::info("went on after {:.0f} s: {}",
                std::chrono::duration<double>(steady_clock::now() - waits_since_).count(), said_);
  said_.clear();
}

bool StallWatch::sleep(milliseconds time) {
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait_for(lock, time, [&] { return shared_->stopping || shared_->asked >= question_; });
  return !shared_->stopping;
}

void StallWatch::run() {
  while (sleep(kLook)) {
    try {
      const std::int64_t asked = [&] {
        std::lock_guard lock(shared_->mutex);
        return shared_->asked;
      }();
      if (asked >= question_) {
        answer(asked);
        question_ = asked + 1;
        listen(question_);
        // Another process is investigating it, and will report it.
        quiet_until_ = steady_clock::now() + kForOthers;
        next_ask_ = steady_clock::now() + std::chrono::seconds(10 + static_cast<long>(own_wait()));
        continue;
      }
      const double waited = own_wait();
      if (waited == 0) say_end();
      const bool late =
          options_.timeout && !ended_job_ && waited >= static_cast<double>(options_.timeout->count());
      if (steady_clock::now() < quiet_until_) continue;
      if (waited >= options_.warning && (late || steady_clock::now() >= next_ask_)) look_into(waited);
    } catch (const PeerFailure&) {
      return;  // the job has failed: there is nobody to ask
    } catch (const std::exception& error) {
      logging::debug("cannot find out which process holds up the job: {}", error.what());
      next_ask_ = steady_clock::now() + milliseconds(10000);
    }
  }
}

watch::ProcessReport StallWatch::own_report() {
  watch::ProcessReport report = reader_.read(client_.num_processes() <= kFewProcesses);
  report.process = client_.process_id();
  report.host = host_;
  const watch::ThreadReport* const foremost = report.foremost();
  const int tid = foremost == nullptr ? report.pid : foremost->tid;
  const auto state_of = [&] {
    for (const watch::ThreadState& thread : watch::read_own_state().threads)
      if (thread.own_tid == tid) return thread;
    return watch::ThreadState();
  };
  const watch::ThreadState before = state_of();
  std::this_thread::sleep_for(kForShare);
  const watch::ThreadState after = state_of();
  const double used = watch::seconds_of_ticks(after.cpu_ticks - before.cpu_ticks);
  if (after.tid != 0)
    report.evidence =
        watch::evidence_of(after, report.pid, used / std::chrono::duration<double>(kForShare).count());
  return report;
}

double StallWatch::own_wait() {
  double longest = 0;
  for (const watch::ThreadReport& thread : reader_.read(false).threads) {
    if (thread.doing.empty() || !watch::waits(thread.doing.back().kind)) continue;
    // To find out for which process a device waits, the others must be asked.
    if (thread.missing_count == 0 && thread.doing.back().kind != watch::Kind::kResult) continue;
    double usual = 0;
    for (const watch::Activity& each : thread.doing) usual = std::max(usual, each.usual_seconds);
    const double waited = thread.doing.back().seconds;
    if (waited >= 20 * usual) longest = std::max(longest, waited);
  }
  return longest;
}

void StallWatch::answer(std::int64_t question) {
  client_.key_value_store().set(fmt::format("{}/{}", answers_key(question), client_.process_id()),
                                json_text(watch::to_json(own_report())), /*allow_overwrite=*/true);
}

std::vector<watch::ProcessReport> StallWatch::ask() {
  coordination::KeyValueStore& store = client_.key_value_store();
  const std::int64_t question = question_;
  try {
    store.set(question_key(question), std::to_string(client_.process_id()), /*allow_overwrite=*/false);
  } catch (const PeerFailure&) {
    throw;
  } catch (const Error&) {
    quiet_until_ = steady_clock::now() + kForOthers;
    return {};  // another process has asked it: the answer is due
  }
  {
    // Its own question needs no answer through the store.
    std::lock_guard lock(shared_->mutex);
    shared_->asked = std::max(shared_->asked, question);
  }
  question_ = question + 1;
  listen(question_);
  std::vector<watch::ProcessReport> reports = {own_report()};
  const auto until = steady_clock::now() + kForAnswers;
  std::vector<std::pair<std::string, std::string>> answers;
  const auto stopping = [&] {
    std::lock_guard lock(shared_->mutex);
    return shared_->stopping;
  };
  while (steady_clock::now() < until && !stopping()) {
    answers = store.get_directory(answers_key(question));
    if (static_cast<int>(answers.size()) >= client_.num_processes() - 1) break;
    std::this_thread::sleep_for(kBetweenAnswers);
  }
  store.erase(answers_key(question));
  if (question > 2) store.erase(question_key(question - 2));
  for (const auto& [key, text] : answers) reports.push_back(watch::from_json(try_parse_json(text)));
  std::ranges::sort(reports, {}, &watch::ProcessReport::process);
  return reports;
}

void StallWatch::look_into(double waited) {
  // Asks twice, because reports of one question may be of different moments.
  std::vector<watch::ProcessReport> reports = ask();
  if (reports.empty()) return;
  const std::vector<watch::Stall> before = watch::diagnose(reports);
  if (!sleep(kLook)) return;
  reports = ask();
  if (reports.empty()) return;
  const int self = client_.process_id();
  for (const watch::Stall& stall : watch::diagnose(reports)) {
    const bool ours = std::ranges::any_of(stall.waiters, [&](const watch::Waiters& waiters) {
      return std::ranges::find(waiters.processes, self) != waiters.processes.end();
    });
    const bool confirmed = std::ranges::any_of(
        before, [&](const watch::Stall& each) { return each.awaited() == stall.awaited(); });
    if (!ours || !confirmed || !stall.long_enough(options_.warning)) continue;
    std::string words = watch::describe(stall, reports);
    const auto difference = watch::find_difference(reports);
    if (difference) words += "; " + watch::describe(*difference, client_.num_processes());
    if (options_.says && steady_clock::now() >= next_ask_) {
      if (stall.declared) {
        logging::info("{}", words);
      } else {
        logging::warning("{}", words);
      }
      said_ = stall.waiters.front().what;
      waits_since_ = steady_clock::now() - std::chrono::milliseconds(static_cast<long>(1000 * stall.seconds));
    }
    if (difference && difference->unchecked && !ended_job_) {
      ended_job_ = true;
      options_.on_timeout(difference->sides.back().processes, words);
    }
    if (options_.timeout && !ended_job_ && stall.seconds >= static_cast<double>(options_.timeout->count())) {
      ended_job_ = true;
      options_.on_timeout(
          watch::causes(stall, difference),
          fmt::format("{} (longer than the stall timeout, {} s)", words, options_.timeout->count()));
    }
    break;
  }
  // At intervals that double.
  const auto interval = std::chrono::duration<double>(std::min(std::max(waited, 10.0), 3600.0));
  next_ask_ = steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(interval);
}

}  // namespace lockstep::runtime
