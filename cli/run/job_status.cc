// SPDX-License-Identifier: Apache-2.0
#include "cli/run/job_status.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "lockstep/coordination/identity/host_port.h"

namespace lockstep::cli {
namespace {

constexpr std::chrono::milliseconds kInterval(1000);

}  // namespace

JobStatus::JobStatus(const JobOptions& options, const std::string& job_id)
    : page_(options.status_page),
      board_(job_id, options.command, options.num_processes, options.devices_per_process.value_or(1)),
      server_({.job_id = job_id, .page = options.status_page}) {
  // By the socket, which is this user's alone.
  server_.answer("page", [url = server_.url()](const nlohmann::json&, const std::shared_ptr<JobAnswer>& to) {
    to->line({{"url", url}});
  });
  publish();
}

std::vector<std::string> JobStatus::words(bool terminal) const {
  std::vector<std::string> words;
  if (page_) {
    const std::string& url = server_.url();
    const bool hidden = !page_->token.empty() && !terminal;
    words.push_back(fmt::format("the status page is at {}{}",
                                hidden ? std::string_view(url).substr(0, url.find('?')) : url,
                                hidden ? "; lockstep status --url prints the address with its token" : ""));
    const bool here_only = coordination::is_loopback({page_->host, page_->port});
    if (page_->token.empty()) {
      words.push_back(fmt::format(
          "warning: without a token the status page shows this job's command, hosts and processes to {}",
          here_only ? "every user of this host" : fmt::format("everybody who reaches {}", page_->host)));
    } else if (!here_only) {
      words.push_back(fmt::format(
          "warning: the status page at {} is not encrypted: whoever can read its traffic can read the token",
          page_->host));
    }
  }
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
