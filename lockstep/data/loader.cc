// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/loader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include "lockstep/base/call_site.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"
#include "lockstep/base/progress.h"
#include "lockstep/data/agreement.h"
#include "lockstep/data/batch_maker.h"
#include "lockstep/data/order.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/runtime.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::data {
namespace {

using std::chrono::steady_clock;

double seconds_since(steady_clock::time_point start) {
  return std::chrono::duration<double>(steady_clock::now() - start).count();
}

/// A batch on its way. What is not atomic is guarded by the loader's mutex; `records[i]` is written by the
/// one thread that took row i.
struct Job {
  std::uint64_t number = 0;
  std::size_t next_row = 0, unread = 0;  // Of the rows that this process reads.
  std::vector<Record> records;
  bool done = false;
  std::atomic<bool> cancelled = false;
  std::optional<Batch> batch;
  std::exception_ptr error;
  std::uint64_t error_position = std::numeric_limits<std::uint64_t>::max();
  double slowest = 0;  // Seconds that one record took, and which.
  std::uint64_t slowest_position = 0;
};

/// The current activity of a worker, for waiting callers.
struct Doing {
  enum What { kNothing, kReading, kMaking };
  What what = kNothing;
  std::uint64_t batch = 0, position = 0;
  steady_clock::time_point since;
};

Sharding sharding_of(const LoaderOptions& options, const CallSite& site) {
  if (options.sharding) return *options.sharding;
  runtime::Runtime& runtime = runtime::Runtime::get(site);
  if (runtime.process_count() > 1) {
    fail<DataError>("[Loader] in a job of {} processes the options must have a sharding (at {})",
                    runtime.process_count(), site.to_string());
  }
  return SingleDeviceSharding(runtime.local_devices().front());
}

std::vector<std::uint64_t> sizes_of(const std::vector<Weighted>& sources) {
  std::vector<std::uint64_t> sizes;
  for (const Weighted& each : sources) {
    if (each.source == nullptr) fail<DataError>("[Loader] source {} is null", sizes.size());
    sizes.push_back(each.source->size());
  }
  return sizes;
}

Mixture mixture_of(const std::vector<Weighted>& sources) {
  std::vector<double> weights;
  for (const Weighted& each : sources) weights.push_back(each.weight);
  return Mixture(weights);
}

/// Within a handler: what the exception says.
std::string what_is_thrown() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is not a std::exception was thrown";
  }
}

LoaderOptions checked(LoaderOptions options, const CallSite& site) {
  std::int64_t rows = 1;
  for (std::int64_t size : options.batch) {
    if (size < 1 || __builtin_mul_overflow(rows, size, &rows) || rows >= std::int64_t{1} << 31) rows = 0;
    if (rows == 0) break;
  }
  if (options.batch.empty() || rows == 0) {
    fail<DataError>("[Loader] expected a batch of 1 to 2^31 - 1 records, such as {{64}}, got {} (at {})",
                    lockstep::to_string(options.batch), site.to_string());
  }
  if (options.workers < 1 || options.ahead < 1) {
    fail<DataError>("[Loader] expected at least one worker and one batch ahead, got {} and {} (at {})",
                    options.workers, options.ahead, site.to_string());
  }
  return options;
}

}  // namespace

class Loader::Impl {
 public:
  Impl(std::vector<Weighted> sources, LoaderOptions options, CallSite site)
      : sources_(std::move(sources)),
        options_(checked(std::move(options), site)),
        site_(site),
        mixture_(mixture_of(sources_)),
        order_(sizes_of(sources_), mixture_, options_.epochs, options_.seed),
        maker_(options_.batch, sharding_of(options_, site), site),
        batch_size_(static_cast<std::uint64_t>(num_elements(options_.batch))),
        batches_(order_.end() / batch_size_ +
                 (!options_.drop_last && order_.end() % batch_size_ != 0 ? 1 : 0)) {
    configuration_.sources = lockstep::fingerprint("sources");
    for (const Weighted& each : sources_) {
      configuration_.sources = combine(configuration_.sources, each.source->fingerprint());
      configuration_.records += each.source->size();
    }
    configuration_.mixture = mixture_.fingerprint();
    configuration_.epochs = options_.epochs.value_or(0);
    configuration_.seed =
        lockstep::fingerprint(options_.seed ? fmt::format("seed {}", *options_.seed) : "none");
    configuration_.batch = 2 * batch_size_ + (options_.drop_last ? 1 : 0);
    doing_.resize(static_cast<std::size_t>(options_.workers));
  }

  ~Impl() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      drop_jobs();
    }
    work_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  std::optional<Batch> next() {
    if (!agreed_) {
      internal::check_agreement(maker_.sharding(), state(), site_);
      agreed_ = true;
    }
    if (next_batch_ == batches_) return std::nullopt;
    const auto start = steady_clock::now();
    std::unique_lock lock(mutex_);
    schedule();
    const std::shared_ptr<Job> job = jobs_.front();
    if (!job->done) wait(lock, *job, start);
    metrics_.wait_seconds += seconds_since(start);
    if (job->error) std::rethrow_exception(job->error);
    ++metrics_.batches;
    ++next_batch_;
    jobs_.pop_front();
    schedule();
    return std::move(job->batch);
  }

  std::optional<std::uint64_t> batches() const {
    if (!options_.epochs) return std::nullopt;
    return batches_;
  }

  LoaderState state() const {
    LoaderState state = configuration_;
    state.position = std::min(order_.end(), next_batch_ * batch_size_);
    return state;
  }

  void restore(const LoaderState& state) {
    LoaderState saved = state;
    if (state.format == 1) {
      if (order_.differs_from_format_1()) {
        fail<DataError>(
            "[Loader] the state was saved by an older version of Lockstep, which shuffled a source of 17 to "
            "128 records in another order; start again from the first batch, or continue with that version");
      }
      saved.format = configuration_.format;
    }
    internal::check_restorable(saved, configuration_);
    const bool at_end = state.position == order_.end();
    if (state.position > order_.end() || (!at_end && state.position % batch_size_ != 0)) {
      fail<DataError>(
          "[Loader] the state says position {}, which is not between two batches of {} up to {}; it "
          "is damaged",
          state.position, batch_size_, order_.end());
    }
    std::lock_guard lock(mutex_);
    drop_jobs();
    next_batch_ = at_end ? batches_ : state.position / batch_size_;
    agreed_ = false;
  }

  LoaderMetrics metrics() const {
    std::lock_guard lock(mutex_);
    return metrics_;
  }

 private:
  void drop_jobs() {
    for (const auto& job : jobs_) job->cancelled = true;
    jobs_.clear();
  }

  /// Has the batches that are next read; starts the threads. The mutex is held.
  void schedule() {
    const auto wanted = static_cast<std::uint64_t>(options_.ahead) + (jobs_.empty() ? 1 : 0);
    std::uint64_t number = jobs_.empty() ? next_batch_ : jobs_.back()->number + 1;
    for (; jobs_.size() < wanted && number < batches_; ++number) {
      auto job = std::make_shared<Job>();
      job->number = number;
      job->unread = maker_.rows().size();
      job->records.resize(job->unread);
      jobs_.push_back(std::move(job));
    }
    if (workers_.empty()) {
      for (std::size_t i = 0; i < doing_.size(); ++i) workers_.emplace_back([this, i] { run(i); });
    }
    work_.notify_all();
  }

  void wait(std::unique_lock<std::mutex>& lock, const Job& job, steady_clock::time_point start) {
    const watch::Doing waiting(watch::Kind::kInput, fmt::format("batch {}", job.number));
    auto report_at = start + std::chrono::seconds(1);
    bool reported = false;
    while (!done_.wait_until(lock, report_at, [&] { return job.done; })) {
      const std::string done = what_is_done(job.number);
      logging::warning("[Loader] has waited {:.1f} s for batch {}: {}", seconds_since(start), job.number,
                       done);
      ProgressBar::waits_for(fmt::format("batch {}: {}", job.number, done));
      reported = true;
      report_at += std::chrono::seconds(10);
    }
    if (!reported) return;
    logging::info("[Loader] batch {} {} after {:.1f} s; what took longest was {}, {:.1f} s", job.number,
                  job.error ? "failed" : "came", seconds_since(start), place(job.slowest_position),
                  job.slowest);
  }

  /// The workers' activity for this batch that has taken longest.
  std::string what_is_done(std::uint64_t batch) const {
    const Doing* longest = nullptr;
    int count = 0;
    for (const Doing& doing : doing_) {
      if (doing.what == Doing::kNothing || doing.batch != batch) continue;
      ++count;
      if (longest == nullptr || doing.since < longest->since) longest = &doing;
    }
    if (longest == nullptr) return "its turn has not come";
    if (longest->what == Doing::kMaking)
      return fmt::format("putting it on the devices for {:.1f} s", seconds_since(longest->since));
    return fmt::format("reading {} for {:.1f} s, and {} more records", place(longest->position),
                       seconds_since(longest->since), count - 1);
  }

  /// "source 1: train.bin window 5": with the source's number if there are several.
  std::string place(std::uint64_t position) const {
    const Order::Place found = order_.at(position);
    const std::string record = sources_[found.source].source->place(found.record);
    return sources_.size() == 1 ? record : fmt::format("source {}: {}", found.source, record);
  }

  /// The thread of a worker.
  void run(std::size_t worker) {
    std::unique_lock lock(mutex_);
    const std::size_t rows = maker_.rows().size();
    const std::size_t chunk = std::max<std::size_t>(1, rows / (4 * doing_.size()));
    while (true) {
      std::shared_ptr<Job> job;
      work_.wait(lock, [&] {
        auto found = std::ranges::find_if(jobs_, [&](const auto& each) { return each->next_row < rows; });
        if (found != jobs_.end()) job = *found;
        return stopping_ || job != nullptr;
      });
      if (stopping_) return;
      const std::size_t begin = job->next_row, end = std::min(rows, begin + chunk);
      job->next_row = end;
      for (std::size_t i = begin; i < end && !job->cancelled; ++i) read(lock, worker, *job, i);
      job->unread -= end - begin;
      if (job->unread == 0 && !job->cancelled) finish(lock, worker, *job);
      doing_[worker].what = Doing::kNothing;
    }
  }

  /// Reads row i of those of this process. The lock is held before and after, and not meanwhile.
  void read(std::unique_lock<std::mutex>& lock, std::size_t worker, Job& job, std::size_t i) {
    const std::uint64_t position = job.number * batch_size_ + static_cast<std::uint64_t>(maker_.rows()[i]);
    if (position >= order_.end()) return;  // A row of zeros.
    const auto start = steady_clock::now();
    doing_[worker] = {Doing::kReading, job.number, position, start};
    lock.unlock();
    Record record;
    std::exception_ptr error;
    std::uint64_t bytes = 0;
    try {
      record = read_record(position);
      check_like_first(record, position);
      for (const auto& [name, field] : record) bytes += field.bytes.size();
    } catch (...) {
      error = std::make_exception_ptr(
          DataError(fmt::format("[Loader] batch {} row {} ({}): {}", job.number, maker_.rows()[i],
                                place(position), what_is_thrown())));
    }
    const double seconds = seconds_since(start);
    lock.lock();
    job.records[i] = std::move(record);
    if (error && position < job.error_position) {
      job.error = error;
      job.error_position = position;
    }
    if (seconds > job.slowest) {
      job.slowest = seconds;
      job.slowest_position = position;
    }
    ++metrics_.records;
    metrics_.bytes += bytes;
    metrics_.read_seconds += seconds;
  }

  /// Puts the batch, whose rows are all read, on the devices.
  void finish(std::unique_lock<std::mutex>& lock, std::size_t worker, Job& job) {
    doing_[worker] = {Doing::kMaking, job.number, 0, steady_clock::now()};
    if (!job.error) {
      lock.unlock();
      std::exception_ptr error;
      std::optional<Batch> batch;
      try {
        const std::uint64_t left = order_.end() - job.number * batch_size_;
        batch =
            maker_.make(first_record(), job.records, static_cast<std::int64_t>(std::min(left, batch_size_)));
        job.records.clear();
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      job.batch = std::move(batch);
      job.error = error;
    }
    job.done = true;
    done_.notify_all();
  }

  Record read_record(std::uint64_t position) const {
    const Order::Place found = order_.at(position);
    return sources_[found.source].source->read(found.record);
  }

  /// The record of position 0, which determines the fields.
  const Record& first_record() {
    std::lock_guard lock(first_mutex_);
    if (!first_) first_ = read_record(0);
    return *first_;
  }

  void check_like_first(const Record& record, std::uint64_t position) {
    const Record& first = first_record();
    const bool same = std::ranges::equal(record, first, [](const auto& a, const auto& b) {
      return a.first == b.first && a.second.dtype == b.second.dtype && a.second.shape == b.second.shape;
    });
    if (same) return;
    fail<DataError>(
        "its fields are {}, but those of the first record ({}) are {}: the records of a batch must have the "
        "same fields; make them so with map or pack (position {})",
        to_string(record), place(0), to_string(first), position);
  }

  const std::vector<Weighted> sources_;
  const LoaderOptions options_;
  const CallSite site_;
  const Mixture mixture_;
  const Order order_;
  const internal::BatchMaker maker_;
  const std::uint64_t batch_size_, batches_;
  LoaderState configuration_;  // At position 0.

  // State of the caller's thread.
  bool agreed_ = false;
  std::uint64_t next_batch_ = 0;

  std::mutex first_mutex_;
  std::optional<Record> first_;

  mutable std::mutex mutex_;
  std::condition_variable work_, done_;
  bool stopping_ = false;
  std::deque<std::shared_ptr<Job>> jobs_;  // From next_batch_ on.
  std::vector<Doing> doing_;
  LoaderMetrics metrics_;
  std::vector<std::thread> workers_;
};

Loader::Loader(SourcePtr source, LoaderOptions options, std::source_location where)
    : Loader(std::vector<Weighted>{{std::move(source), 1}}, std::move(options), where) {}

Loader::Loader(std::vector<Weighted> sources, LoaderOptions options, std::source_location where) {
  const CallSite site = CallSite::from(where);
  CallSiteScope scope(site);
  impl_ = std::make_unique<Impl>(std::move(sources), std::move(options), site);
}

Loader::~Loader() = default;
std::optional<Batch> Loader::next(std::source_location where) {
  const CallSiteScope scope(CallSite::from(where));
  return impl_->next();
}
std::optional<std::uint64_t> Loader::batches() const { return impl_->batches(); }
LoaderState Loader::state() const { return impl_->state(); }
void Loader::restore(const LoaderState& state) { impl_->restore(state); }
LoaderMetrics Loader::metrics() const { return impl_->metrics(); }

}  // namespace lockstep::data
