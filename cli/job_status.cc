// SPDX-License-Identifier: Apache-2.0
#include "cli/job_status.h"

#include <fmt/format.h>

namespace lockstep::cli {
namespace {

constexpr std::chrono::milliseconds kInterval(1000);

}  // namespace

JobStatus::JobStatus(const JobOptions& options, const std::string& job_id)
    : board_(job_id, options.command, options.num_processes, options.devices_per_process.value_or(1)),
      server_({.job_id = job_id, .page = options.status_page}) {
  publish();
}

std::vector<std::string> JobStatus::words() const {
  std::vector<std::string> words;
  if (!server_.url().empty()) words.push_back("the status page is at " + server_.url());
  if (!server_.trouble().empty())
    words.push_back(fmt::format("lockstep status cannot ask for this job: {}", server_.trouble()));
  return words;
}

void JobStatus::work() {
  server_.work();
  if (Steady::now() >= next_) publish();
}

void JobStatus::publish() {
  next_ = Steady::now() + kInterval;
  server_.publish(board_.view());
}

}  // namespace lockstep::cli
