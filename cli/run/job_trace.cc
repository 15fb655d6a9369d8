// SPDX-License-Identifier: Apache-2.0
#include "cli/run/job_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <ostream>
#include <tuple>
#include <utility>

#include "cli/trace/perfetto_writer.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fail.h"

namespace lockstep::cli {
namespace {

constexpr std::chrono::seconds kForTheLastWords(5);
constexpr std::chrono::milliseconds kLooksWhetherWritten(20);

std::int64_t now_of(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

Steady::duration seconds(double count) {
  return std::chrono::duration_cast<Steady::duration>(std::chrono::duration<double>(count));
}

std::string describe_size(std::uint64_t bytes) {
  return bytes < 1'000'000 ? fmt::format("{:.0f} kB", static_cast<double>(bytes) / 1e3)
                           : fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

// "process 2 of 4 (host b)"
std::string name_of(const TraceRecord& record, std::size_t process) {
  return fmt::format("process {} of {}{}", process, record.processes.size(),
                     record.several_hosts ? fmt::format(" (host {})", record.processes[process].host) : "");
}

std::string describe(const TraceRecord& record, const TraceSummary& summary,
                     const std::filesystem::path& file, const std::string& why) {
  std::string line = fmt::format("trace of {:.1f} s: {} events of {} processes in {} ({})",
                                 static_cast<double>(record.end - record.begin) * 1e-9, summary.events,
                                 record.processes.size(), file.string(), describe_size(summary.bytes));
  if (!why.empty()) line += "; " + why;
  if (summary.clock_error_ns > 0)
    line += fmt::format("; times of {} may be wrong by {:.3f} ms, of others by less",
                        name_of(record, summary.clock_error_of),
                        static_cast<double>(summary.clock_error_ns) * 1e-6);
  if (summary.lost > 0) {
    const auto most = std::ranges::max_element(record.processes, {}, &TraceRecord::Process::lost);
    line +=
        fmt::format("; {} events are lost because they came too fast, most of them from {}: {}", summary.lost,
                    name_of(record, static_cast<std::size_t>(most - record.processes.begin())), most->lost);
  } else {
    line += "; no event is lost";
  }
  for (const std::string& remark : record.remarks) line += "; " + remark;
  return line + "; open it in https://ui.perfetto.dev";
}

}  // namespace

void JobTrace::begin(TraceRequest request) {
  if (state_ != State::kIdle)
    fail("another trace of this job is being taken, into {}; try again when it has ended",
         request_.file->path().string());
  request_ = std::move(request);
  clock_ = std::make_shared<watch::TickClock>(watch::machine_clock());
  const std::vector<std::string>& hosts = hosts_.host_of_process();
  record_ = std::make_shared<TraceRecord>(hosts.size());
  record_->several_hosts = hosts_.several();
  for (std::size_t p = 0; p < hosts.size(); ++p) record_->processes[p].host = hosts[p];
  why_.clear();
  state_ = State::kTaking;
  hosts_.begin_trace(clock_);
  record_->begin = clock_->to_monotonic_ns(clock_->now());
  until_.reset();
  if (request_.seconds) until_ = Steady::now() + seconds(*request_.seconds);
}

void JobTrace::take(const TraceChunk& chunk) {
  if (state_ != State::kTaking && state_ != State::kEnding) return;
  record_->add(chunk);
  if (state_ != State::kTaking || record_->events() < kMostEvents || !why_.empty()) return;
  why_ = fmt::format("it ended early, because a trace has at most {} events", kMostEvents);
  until_ = Steady::now();  // not here: this may be called while the hosts read their processes
}

std::optional<Steady::time_point> JobTrace::next_work() const {
  if (state_ == State::kWriting) return Steady::now() + kLooksWhetherWritten;
  return state_ == State::kIdle ? std::nullopt : until_;
}

void JobTrace::work() {
  if (state_ == State::kTaking && until_ && Steady::now() >= *until_) end();
  if (state_ == State::kEnding && (!hosts_.tracing() || Steady::now() >= *until_)) write();
  if (state_ == State::kWriting && written_.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
    say_how_it_went();
}

void JobTrace::finish() {
  if (state_ == State::kTaking) {
    if (request_.seconds && why_.empty()) why_ = "it ended early, with the job";
    end();
  }
  if (state_ == State::kEnding) write();
  if (state_ == State::kWriting) say_how_it_went();
}

void JobTrace::end() {
  state_ = State::kEnding;
  until_ = Steady::now() + kForTheLastWords;
  hosts_.end_trace();
  const auto [end, others] =
      watch::read_together([this] { return clock_->to_monotonic_ns(clock_->now()); },
                           [] { return std::pair(now_of(CLOCK_REALTIME), now_of(CLOCK_BOOTTIME)); });
  record_->end = end;
  std::tie(record_->realtime_at_end, record_->boottime_at_end) = others;
}

void JobTrace::settle_clocks() {
  const auto clocks = hosts_.trace_clocks();
  record_->clocks.clear();
  for (std::size_t i = 0; i < clocks.size(); ++i) {
    const auto& [first, clock] = clocks[i];
    const std::size_t last =
        i + 1 < clocks.size() ? static_cast<std::size_t>(clocks[i + 1].first) : record_->processes.size();
    const std::string& host = record_->processes[first].host;
    bool any = false;
    for (auto p = static_cast<std::size_t>(first); p < last; ++p) {
      TraceRecord::Process& process = record_->processes[p];
      process.clock = i;
      any = any || !process.events.empty();
      // Nobody could say when they were.
      if (!clock) process.lost += std::exchange(process.events, {}).size();
    }
    if (!clock && any) record_->remarks.push_back(fmt::format("host {} never said what time it is", host));
    if (clock && !clock->consistent())
      record_->remarks.push_back(
          fmt::format("the clock of host {} was set during the trace: its times may be wrong by more", host));
    record_->clocks.push_back(clock.value_or(HostClock()));
  }
}

void JobTrace::write() {
  if (hosts_.tracing())
    record_->remarks.push_back(
        fmt::format("not all hosts have sent the last of it within {} s", kForTheLastWords.count()));
  settle_clocks();
  state_ = State::kWriting;
  written_ =
      std::async(std::launch::async, [record = record_, file = request_.file, why = why_]() -> Written {
        try {
          TraceSummary summary;
          file->write([&](std::ostream& out) { summary = write_perfetto(*record, out); });
          return {true, describe(*record, summary, file->path(), why)};
        } catch (const Error& error) {
          return {false, error.what()};
        }
      });
}

void JobTrace::say_how_it_went() {
  const Written written = written_.get();
  record_.reset();
  request_.file.reset();
  state_ = State::kIdle;
  const auto done = std::move(request_.done);
  if (done) done(written.good, written.line);
}

std::filesystem::path trace_of_attempt(const std::filesystem::path& file, int attempt) {
  if (attempt == 0) return file;
  std::filesystem::path name = file.stem();
  name += fmt::format(".attempt-{}", attempt);
  name += file.extension();
  return file.parent_path() / name;
}

}  // namespace lockstep::cli
