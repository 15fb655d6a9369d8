// SPDX-License-Identifier: Apache-2.0
#include "cli/status/status_board.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>

#include "lockstep/base/host_name.h"
#include "lockstep/base/text.h"

namespace lockstep::cli {
namespace {

constexpr double kRecentSeconds = 5;
constexpr double kLeastStall = 2;  // seconds: shorter ones are no news
constexpr std::size_t kEvents = 200;
constexpr std::size_t kLongestCommand = 16 << 10;

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

StatusBoard::StatusBoard(std::string job_id, const std::vector<std::string>& command, int num_processes,
                         int devices_per_process)
    : devices_(std::max(devices_per_process, 1)) {
  view_.job_id = std::move(job_id);
  view_.command = shown_lines(fmt::format("{}", fmt::join(command, " ")), kLongestCommand);
  view_.host = host_name();
  view_.pid = getpid();
  view_.started = unix_time();
  view_.processes.resize(num_processes);
  begin(0);
}

void StatusBoard::begin(int attempt) {
  view_.attempt = attempt;
  view_.state = "starting";
  view_.failure.clear();
  view_.stalls.clear();
  long_stalls_.clear();
  samples_.assign(view_.processes.size(), {});
  for (std::size_t i = 0; i < view_.processes.size(); ++i) {
    view_.processes[i] = {};
    view_.processes[i].process = static_cast<int>(i);
    view_.processes[i].restarts = attempt;
  }
}

void StatusBoard::take(const watch::ProcessReport& report) {
  if (report.process < 0 || report.process >= static_cast<int>(view_.processes.size())) return;
  ProcessRow row = row_of(report, devices_);
  row.restarts = view_.attempt;
  std::deque<Sample>& samples = samples_[report.process];
  samples.push_back({row.age_seconds, row.in_all});
  // The oldest one is at least kRecentSeconds old, once there is one.
  while (samples.size() > 2 && samples[1].age <= row.age_seconds - kRecentSeconds) samples.pop_front();
  const Sample& before = samples.front();
  const double passed = row.age_seconds - before.age;
  if (passed > 0) {
    const auto part = [&](double from, double to, double of) {
      return std::clamp((to - from) / of, 0.0, 1.0);
    };
    const Times &from = before.in_all, &to = row.in_all;
    row.recent_share = {part(from.wait, to.wait, passed * devices_),
                        part(from.transfer, to.transfer, passed * devices_),
                        part(from.launch, to.launch, passed), part(from.input, to.input, passed)};
  }
  view_.processes[report.process] = std::move(row);
}

void StatusBoard::ended(int process, const Outcome& outcome) {
  ProcessRow& row = view_.processes.at(process);
  row.state = outcome.success() ? RowState::kEnded : RowState::kFailed;
  row.words = outcome.describe();
  row.detail.clear();
  row.site.clear();
  row.seconds = -1;
  row.cpu_share = 0;
  row.memory_bytes = 0;
  row.device_memory.clear();
  row.recent_share = {};
}

void StatusBoard::set_stalls(const std::vector<watch::Stall>& stalls) {
  view_.stalls.clear();
  std::vector<std::string> long_ones;
  for (const watch::Stall& stall : stalls) {
    if (stall.seconds < kLeastStall) continue;
    view_.stalls.push_back(stall);
    if (!stall.long_enough()) continue;
    long_ones.push_back(stall.key());
    if (std::ranges::find(long_stalls_, long_ones.back()) == long_stalls_.end()) ++view_.stalls_in_all;
  }
  long_stalls_ = std::move(long_ones);
}

void StatusBoard::set_failure(const std::string& failure) { view_.failure = shown_lines(failure); }

void StatusBoard::said(std::string_view line) {
  view_.events.push_back({unix_time(), shown_lines(line)});
  if (view_.events.size() > kEvents) view_.events.erase(view_.events.begin());
}

std::shared_ptr<const JobView> StatusBoard::view() const {
  auto view = std::make_shared<JobView>(view_);
  view->time = unix_time();
  view->stragglers = find_stragglers(view->processes);
  return view;
}

}  // namespace lockstep::cli
