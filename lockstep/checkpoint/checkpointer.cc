// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/checkpointer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <future>
#include <set>

#include "lockstep/base/amount.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/json.h"
#include "lockstep/base/log.h"
#include "lockstep/checkpoint/check_url.h"
#include "lockstep/checkpoint/contents.h"
#include "lockstep/checkpoint/job.h"
#include "lockstep/checkpoint/run_steps.h"
#include "lockstep/checkpoint/saving.h"
#include "lockstep/checkpoint/step_folder.h"
#include "lockstep/runtime/runtime.h"

namespace lockstep::checkpoint {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

/// The job, the current save, and process 0's information about existing steps.
struct Checkpointer::State {
  explicit State(Job job) : job(std::move(job)) {}

  const Job job;
  Staging staging;
  std::future<void> done;
  std::int64_t step = -1;
  std::atomic<std::uint64_t> bytes = 0, written = 0;
  std::atomic<double> seconds = 0;
  std::set<std::int64_t> damaged_logged;
  RunSteps run;  ///< as read before the current save was published

  /// Removes steps that no rule keeps. An error is only logged, because the step was saved.
  void clean(const std::string& url, const Keep& keep, const SavedStep& saved) {
    if (keep.last <= 0 && keep.every <= 0 && keep.best <= 0) return;
    try {
      const auto store = storage::open_store(url);
      run.steps.push_back(saved);
      for (const auto& [step, why] : run.damaged)
        if (damaged_logged.insert(step).second)
          logging::warning("[checkpoint] step {} is damaged and is not removed: {}", step, why);
      for (const std::string& error : remove_superseded(*store, keep, saved.step, run))
        logging::warning("[checkpoint] could not remove an earlier step: {}", error);
    } catch (const std::exception& error) {
      logging::warning("[checkpoint] could not remove earlier steps: {}", error.what());
    }
  }

  /// Process 0 does the work; all return what it has returned, or throw its error.
  std::string on_process_0(const char* what, const std::string& url, std::chrono::milliseconds timeout,
                           const std::function<std::string()>& work) const {
    Round round(job, fmt::format("{} {}", what, url), timeout);
    if (!job.leads()) return round.conclusion();
    std::string text;
    try {
      text = work();
    } catch (const std::exception& error) {
      const bool complete = dynamic_cast<const CheckpointError*>(&error) != nullptr;
      const std::string message =
          complete ? error.what() : fmt::format("[checkpoint] {}: {}", url, error.what());
      round.conclude_error(message);
      throw CheckpointError(message);
    }
    round.conclude(text);
    return text;
  }

  /// Ends interrupted removals, and removes attempts that cannot be alive.
  void tidy(const std::string& url) {
    const auto store = storage::open_store(url, /*make=*/true);
    const auto each = [&](const std::string& folder, auto remove) {
      try {
        remove();
      } catch (const std::exception& error) {
        logging::warning("[checkpoint] could not remove {}: {}", store->url(folder), error.what());
      }
    };
    for (std::int64_t step : half_removed_steps(*store))
      each(step_name(step), [&] { finish_removal(*store, step_name(step)); });
    for (const Leftover& leftover : leftovers(*store)) {
      if (job.live->contains(leftover.nonce)) continue;
      const std::string& folder = leftover.attempt.folder;
      const auto expiry = expiry_of(leftover.nonce);
      if (is_of_job(leftover.nonce, job.id) ||
          (expiry && *expiry < std::chrono::system_clock::to_time_t(job.now()))) {
        each(folder, [&] {
          remove_leftover(*store, leftover);
          logging::info("[checkpoint] removed {}, which an unfinished save left", store->url(folder));
        });
      } else {
        logging::warning(
            "[checkpoint] {} belongs to an unfinished save, which another job may still be making; if none "
            "is, remove it with: lockstep ckpt rm --attempts {}{}",
            store->url(folder), url,
            expiry ? " (a Checkpointer removes it when its time limit is over)" : "");
      }
    }
  }
};

namespace {

/// Whether a save failed and its error was only logged.
std::atomic<bool> failed_unnoticed = false;

/// A program must not end with status 0 if it never learned that a save failed.
void fail_at_exit(int status, void* process) {
  if (status != 0 || reinterpret_cast<std::intptr_t>(process) != ::getpid()) return;
  logging::error("the program ends with status 1, because its last save failed and it did not call wait()");
  if (runtime::Runtime* runtime = runtime::Runtime::existing()) runtime->at_exit(1);
  std::fflush(nullptr);
  ::_exit(1);
}

}  // namespace

Checkpointer::Checkpointer(std::string url, CheckpointerOptions options, std::source_location where)
    : url_([&] {
        check_url(url);
        while (url.size() > 1 && url.ends_with('/')) url.pop_back();
        return std::move(url);
      }()),
      options_(std::move(options)),
      state_([&] {
        CallSiteScope scope(CallSite::from(where));
        return std::make_unique<State>(Job::current());
      }()) {
  state_->on_process_0("open", url_, options_.timeout, [&] {
    state_->tidy(url_);
    return "open";
  });
}

Checkpointer::~Checkpointer() {
  try {
    wait();
  } catch (const std::exception& error) {
    logging::error("{}", error.what());
    if (!failed_unnoticed.exchange(true))
      ::on_exit(fail_at_exit, reinterpret_cast<void*>(static_cast<std::intptr_t>(::getpid())));
  }
}

std::string Checkpointer::url_of(std::int64_t step) const { return url_ + "/" + step_name(step); }

void Checkpointer::wait() {
  if (!state_->done.valid()) return;
  using namespace std::chrono_literals;
  auto next = 1s;
  while (state_->done.wait_for(next) == std::future_status::timeout) {
    logging::info("[checkpoint] waiting for step {}: {} of {} are written", state_->step,
                  amount_of_bytes(state_->written), amount_of_bytes(state_->bytes));
    next = 10s;
  }
  last_.written_seconds = state_->seconds;
  last_.bytes = state_->bytes;
  state_->done.get();
}

void Checkpointer::save_tree(std::int64_t step, tree::TreeRef tree, std::optional<double> metric) {
  if (step < 0) fail<CheckpointError>("[checkpoint] expected a step of at least 0, got {}", step);
  Contents contents = contents_of(tree);
  wait();
  const Clock::time_point start = Clock::now();
  State& state = *state_;
  SavingOptions saving_options{step, metric, options_.timeout, {}};
  saving_options.highest_order = [&state](const storage::Store& store) {
    state.run = read_run(store, state.run);
    return state.run.highest_order();
  };
  auto saving =
      std::make_shared<Saving>(state.job, url_of(step), std::move(contents), std::move(saving_options));
  state.step = step;
  state.bytes = saving->bytes();
  state.written = 0;
  saving->on_written = [&state](std::uint64_t bytes) { state.written += bytes; };
  if (options_.asynchronous) saving->stage(state_->staging, options_.staging_bytes);
  auto work = [this, saving, start, step, &state] {
    saving->run();
    state.bytes = saving->bytes();
    const double seconds = since(start);
    state.seconds = seconds;
    if (!state_->job.leads()) return;
    logging::info("[checkpoint] saved {} in {:.2f} s ({} by {})", url_of(step), seconds,
                  amount_of_bytes(saving->bytes()),
                  state_->job.num_processes == 1 ? "this process" : state_->job.who(0));
    state.clean(url_, options_.keep, saving->saved());
  };
  last_ = {step, saving->bytes(), 0, 0};
  saving.reset();
  state.done = std::async(options_.asynchronous ? std::launch::async : std::launch::deferred, work);
  if (!options_.asynchronous) wait();
  last_.blocked_seconds = since(start);
}

std::vector<std::int64_t> Checkpointer::steps() {
  wait();
  const std::string text = state_->on_process_0("list", url_, options_.timeout, [&] {
    return json_text(nlohmann::json(published_steps(*storage::open_store(url_))));
  });
  return parse_json(text).get<std::vector<std::int64_t>>();
}

std::optional<std::int64_t> Checkpointer::latest() {
  wait();
  const std::string text = state_->on_process_0("list", url_, options_.timeout, [&] {
    const auto step = read_run(*storage::open_store(url_)).latest(url_);
    return step ? std::to_string(*step) : "";
  });
  return text.empty() ? std::nullopt : std::optional<std::int64_t>(std::stoll(text));
}

void Checkpointer::log_restored(std::int64_t step, const RestoreReport& report) const {
  if (!state_->job.leads()) return;
  logging::info("[checkpoint] restored {} ({} by {}): continuing after step {}", url_of(step),
                amount_of_bytes(report.bytes_needed),
                state_->job.num_processes == 1 ? "this process" : state_->job.who(0), step);
}

}  // namespace lockstep::checkpoint
