// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/fail.h"
#include "lockstep/runtime/runtime.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::checkpoint {
namespace {

constexpr char kDone = '+', kFailed = '-';
constexpr const char *kRoot = "lockstep/checkpoint/", *kOffer = "offer", *kTold = "told", *kReport = "report",
                     *kConclusion = "conclusion";

/// A value may be large (checksums of a process's part); each message to the coordinator is not.
constexpr std::size_t kAtATime = 1 << 20;

constexpr std::chrono::milliseconds kOneWait(1000), kForTheConclusion(10000);

/// As long as no limit, and short enough to be added to a time.
constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365 * 10);
constexpr std::int64_t kConclusionsKept = 1000;

std::atomic<std::int64_t> rounds_made = 0;
std::atomic<int> job_of_rounds = 0;

thread_local const Job* job_of_test = nullptr;

std::string seconds(std::chrono::milliseconds time) {
  return fmt::format("{} s", static_cast<double>(time.count()) / 1000);
}

}  // namespace

std::string Job::who(int process) const {
  return num_processes == 1 ? "" : fmt::format("process {} of {}", process, num_processes);
}

bool LiveAttempts::contains(const std::string& nonce) const {
  const std::lock_guard lock(mutex_);
  return nonces_.contains(nonce);
}

LiveAttempt::LiveAttempt(std::shared_ptr<LiveAttempts> all, std::string nonce)
    : all_(std::move(all)), nonce_(std::move(nonce)) {
  const std::lock_guard lock(all_->mutex_);
  all_->nonces_.insert(nonce_);
}

LiveAttempt::~LiveAttempt() {
  const std::lock_guard lock(all_->mutex_);
  all_->nonces_.erase(nonce_);
}

ScopedJob::ScopedJob(const Job& job) : before_(std::exchange(job_of_test, &job)) {}
ScopedJob::~ScopedJob() { job_of_test = before_; }

Job Job::current() {
  if (job_of_test != nullptr) return *job_of_test;
  static const auto live = std::make_shared<LiveAttempts>();
  runtime::Runtime& runtime = runtime::Runtime::get();
  const int number = runtime.job();
  if (job_of_rounds.exchange(number) != number) rounds_made = 0;  // as in the other processes of the job
  // Only this one of the described processes exists.
  const int processes = runtime.described() ? 1 : runtime.process_count();
  return {runtime.process_index(),
          processes,
          runtime.job_id(),
          runtime.store(),
          [&runtime] { runtime.check_healthy(runtime.process_count() > 1); },
          [&runtime, number] {
            if (runtime.job() == number) return;
            fail<CheckpointError>(
                "[checkpoint] a Checkpointer is of a job that this process has left by shutdown() (at {}); "
                "make one after initialize()",
                CallSiteScope::current().to_string());
          },
          live};
}

Round::Round(const Job& job, std::string what, std::chrono::milliseconds timeout)
    : job_(job),
      what_(std::move(what)),
      number_(rounds_made++),
      deadline_(std::chrono::steady_clock::now() + std::min(timeout, kLongest)),
      timeout_(std::min(timeout, kLongest)) {
  job_.check_joined();
}

void Round::put(const std::string& key, const Word& word) {
  if (job_.num_processes == 1) return;
  const std::string place = fmt::format("{}{}/{}", kRoot, number_, key);
  std::size_t parts = 0;
  for (std::size_t at = 0; at < word.text.size(); at += kAtATime, ++parts)
    job_.store->set(fmt::format("{}/{}", place, parts), word.text.substr(at, kAtATime));
  job_.store->set(place, fmt::format("{}{}", word.failed ? kFailed : kDone, parts));
}

Round::Word Round::take(const std::string& key, int from, std::chrono::milliseconds longer) {
  const std::string place = fmt::format("{}{}/{}", kRoot, number_, key);
  const watch::Doing waiting(watch::Kind::kAnswer, key == kTold         ? "the start of a checkpoint"
                                                   : key == kConclusion ? "the end of a checkpoint"
                                                                        : "a part of a checkpoint");
  watch::waits_for(std::array{from}, 0);
  std::string head;
  while (head.empty()) {
    job_.check_healthy();
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ + longer -
                                                                            std::chrono::steady_clock::now());
    // Short waits, so that a failure of the job ends this one.
    try {
      head = job_.store->get(place, std::clamp(left, std::chrono::milliseconds(1), kOneWait));
    } catch (const TimeoutError&) {
      if (left <= kOneWait) {
        fail<TimeoutError>("[checkpoint] {}: {} has not answered within {}; see its log", what_,
                           job_.who(from), seconds(timeout_ + longer));
      }
    }
  }
  Word word{head.front() == kFailed, ""};
  for (std::size_t i = 0, parts = std::stoull(head.substr(1)); i < parts; ++i)
    word.text += job_.store->get(fmt::format("{}/{}", place, i), std::chrono::seconds(60));
  return word;
}

void Round::tell(const std::string& text) {
  told_ = true;
  put(kTold, {false, text});
}

std::string Round::hear() {
  // At the deadline process 0 knows which processes are missing, and tells it.
  Word word = take(kTold, 0, kForTheConclusion);
  if (word.failed) throw CheckpointError(word.text);
  return std::move(word.text);
}

void Round::say(const char* what, std::optional<Word>& mine, Word word) {
  mine = std::move(word);
  if (!job_.leads()) put(fmt::format("{}/{}", what, job_.process_index), *mine);
}

void Round::offer(const std::string& text) { say(kOffer, offered_, {false, text}); }
void Round::report(const std::string& text) { say(kReport, reported_, {false, text}); }

void Round::report_error(const std::string& message) {
  const Word word{true, message};
  if (!offered_) say(kOffer, offered_, word);
  if (job_.leads() && !std::exchange(told_, true)) put(kTold, word);
  say(kReport, reported_, word);
}

std::vector<std::string> Round::offers() { return gather(kOffer, *offered_); }
std::vector<std::string> Round::reports() { return gather(kReport, *reported_); }

std::vector<std::string> Round::gather(const char* what, const Word& mine) {
  std::vector<std::string> all;
  std::vector<std::string> errors;
  std::vector<int> missing;
  for (int process = 0; process < job_.num_processes; ++process) {
    try {
      Word word = process == 0 ? mine : take(fmt::format("{}/{}", what, process), process);
      (word.failed ? errors : all).push_back(std::move(word.text));
    } catch (const TimeoutError&) {
      missing.push_back(process);
    }
  }
  if (!errors.empty()) {
    throw CheckpointError(
        errors.front() +
        (errors.size() > 1 ? fmt::format(" (and {} more processes failed)", errors.size() - 1) : ""));
  }
  if (!missing.empty()) {
    constexpr std::size_t kNamed = 8;
    const std::size_t count = missing.size(), more = count > kNamed ? count - kNamed : 0;
    missing.resize(count - more);
    fail<CheckpointError>(
        "[checkpoint] {}: {} of {} processes have not reported within {}: {}{}; see their logs", what_, count,
        job_.num_processes, seconds(timeout_), fmt::join(missing, ", "),
        more > 0 ? fmt::format(" and {} more", more) : "");
  }
  return all;
}

void Round::conclude(const std::string& text) {
  put(kConclusion, {false, text});
  if (job_.num_processes == 1) return;
  // All processes that have reported have read the text for them. Conclusions may be read late, and are
  // short.
  for (const char* each : {kOffer, kTold, kReport})
    job_.store->erase(fmt::format("{}{}/{}", kRoot, number_, each));
  if (number_ >= kConclusionsKept) job_.store->erase(fmt::format("{}{}", kRoot, number_ - kConclusionsKept));
}

void Round::conclude_error(const std::string& message) { put(kConclusion, {true, message}); }

std::string Round::conclusion() {
  // At the deadline process 0 knows which processes are missing, and reports it.
  Word word = take(kConclusion, 0, kForTheConclusion);
  if (word.failed) throw CheckpointError(word.text);
  return std::move(word.text);
}

}  // namespace lockstep::checkpoint
