// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/checkpointer.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <nlohmann/json.hpp>

#include "lockstep/base/amount.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"
#include "lockstep/checkpoint/contents.h"
#include "lockstep/checkpoint/job.h"
#include "lockstep/checkpoint/manifest.h"
#include "lockstep/checkpoint/saving.h"
#include "lockstep/checkpoint/step_folder.h"

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
  std::uint64_t bytes = 0;
  std::atomic<std::uint64_t> written = 0;
  std::atomic<double> seconds = 0;
  std::optional<std::map<std::int64_t, std::optional<double>>> metrics;

  /// Removes steps that no rule keeps. An error is only logged, because the step was saved.
  void clean(const std::string& url, const Keep& keep, std::int64_t saved, std::optional<double> metric) {
    if (keep.last <= 0 && keep.every <= 0 && keep.best <= 0) return;
    try {
      const auto store = storage::open_store(url);
      if (!metrics) {
        metrics.emplace();
        for (std::int64_t step : published_steps(*store)) {
          const std::string name = step_name(step) + "/" + kManifestName;
          (*metrics)[step] =
              keep.best > 0 ? parse_manifest(storage::read_whole(*store->open(name)), store->url(name)).metric
                            : std::nullopt;
        }
      }
      (*metrics)[saved] = metric;
      for (std::int64_t step : to_remove(keep, *metrics)) {
        remove_checkpoint(*store, step_name(step));
        metrics->erase(step);
      }
    } catch (const std::exception& error) {
      metrics.reset();
      logging::warning("[checkpoint] an earlier step is not removed: {}", error.what());
    }
  }
};

Checkpointer::Checkpointer(std::string url, CheckpointerOptions options, std::source_location where)
    : url_([&] {
        while (url.size() > 1 && url.ends_with('/')) url.pop_back();
        return std::move(url);
      }()),
      options_(std::move(options)),
      state_([&] {
        CallSiteScope scope(CallSite::from(where));
        return std::make_unique<State>(Job::current());
      }()) {
  Round round(state_->job, "open " + url_, options_.timeout);
  if (!state_->job.leads()) {
    round.conclusion();
    return;
  }
  try {
    const auto store = storage::open_store(url_, /*make=*/true);
    for (std::int64_t step : half_removed_steps(*store)) remove_checkpoint(*store, step_name(step));
    for (const Leftover& leftover : leftovers(*store)) {
      if (!state_->job.id.empty() && leftover.nonce.starts_with(attempt_prefix(state_->job.id))) {
        remove_leftover(*store, leftover);
        logging::info("[checkpoint] removed {}, which an earlier start of this job did not end",
                      store->url(leftover.attempt.folder));
      } else {
        logging::warning(
            "[checkpoint] {} is of a save that did not end, or that another job is making; if none is, "
            "remove it "
            "with: lockstep ckpt rm --attempts {}",
            store->url(leftover.attempt.folder), url_);
      }
    }
  } catch (const std::exception& error) {
    const std::string message = fmt::format("[checkpoint] {}: {}", url_, error.what());
    round.conclude_error(message);
    throw CheckpointError(message);
  }
  round.conclude("open");
}

Checkpointer::~Checkpointer() {
  try {
    wait();
  } catch (const std::exception& error) {
    logging::error("{}", error.what());
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
  state_->done.get();
}

void Checkpointer::save_tree(std::int64_t step, tree::TreeRef tree, std::optional<double> metric) {
  if (step < 0) fail<CheckpointError>("[checkpoint] expected a step of at least 0, got {}", step);
  Contents contents = contents_of(tree);
  wait();
  const Clock::time_point start = Clock::now();
  auto saving = std::make_shared<Saving>(state_->job, url_of(step), std::move(contents),
                                         SavingOptions{step, metric, options_.timeout});
  State& state = *state_;
  state.step = step;
  state.bytes = saving->bytes();
  state.written = 0;
  saving->on_written = [&state](std::uint64_t bytes) { state.written += bytes; };
  if (options_.asynchronous) saving->stage(state_->staging, options_.staging_bytes);
  auto work = [this, saving, start, step, metric, &state] {
    saving->run();
    const double seconds = since(start);
    state.seconds = seconds;
    if (!state_->job.leads()) return;
    logging::info("[checkpoint] saved {} in {:.2f} s ({} by {})", url_of(step), seconds,
                  amount_of_bytes(saving->bytes()),
                  state_->job.num_processes == 1 ? "this process" : state_->job.who(0));
    state.clean(url_, options_.keep, step, metric);
  };
  last_ = {step, saving->bytes(), 0, 0};
  saving.reset();
  state.done = std::async(options_.asynchronous ? std::launch::async : std::launch::deferred, work);
  if (!options_.asynchronous) wait();
  last_.blocked_seconds = since(start);
}

std::vector<std::int64_t> Checkpointer::steps() {
  wait();
  Round round(state_->job, "list " + url_, options_.timeout);
  std::string text;
  if (state_->job.leads()) {
    try {
      text = nlohmann::json(published_steps(*storage::open_store(url_))).dump();
    } catch (const std::exception& error) {
      const std::string message = fmt::format("[checkpoint] {}: {}", url_, error.what());
      round.conclude_error(message);
      throw CheckpointError(message);
    }
    round.conclude(text);
  } else {
    text = round.conclusion();
  }
  return nlohmann::json::parse(text).get<std::vector<std::int64_t>>();
}

std::optional<std::int64_t> Checkpointer::latest() {
  const std::vector<std::int64_t> all = steps();
  return all.empty() ? std::nullopt : std::optional(all.back());
}

void Checkpointer::log_restored(std::int64_t step, const RestoreReport& report) const {
  if (!state_->job.leads()) return;
  logging::info("[checkpoint] restored {} ({} by {}): goes on after step {}", url_of(step),
                amount_of_bytes(report.bytes_needed),
                state_->job.num_processes == 1 ? "this process" : state_->job.who(0), step);
}

}  // namespace lockstep::checkpoint
