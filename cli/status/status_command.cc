// SPDX-License-Identifier: Apache-2.0
#include "cli/status/status_command.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "cli/base/job_socket.h"
#include "cli/base/words.h"
#include "cli/status/status_json.h"
#include "cli/status/status_table.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"

namespace lockstep::cli {
namespace {

constexpr std::chrono::seconds kBetweenLooks(1);

constexpr char kMore[] =
    R"(  lockstep status                  the only running job of this user, or a list of them
  lockstep status 8a8b              the job whose id begins with 8a8b
  lockstep status --watch           repeats every second
  lockstep status --json            for programs (docs/status.md)
  lockstep status --url             the address of the job's page, if it has one

The information comes from the job's launcher, which must run on this host, not from the processes.)";

struct Options {
  std::string job;
  bool watch = false, json = false, all = false, url = false;
};

// Nullopt where the job has ended meanwhile.
std::optional<std::string> ask(const RunningJob& job, const char* request) {
  JobConnection connection(job);
  connection.send(fmt::format("{{\"request\": \"{}\"}}\n", request));
  return connection.line(JobConnection::kUntilAnswer);
}

ReadView read(const RunningJob& job, const std::string& answer) {
  const auto json = try_parse_json(answer);
  if (json.is_discarded()) fail("the launcher of job {} gave an answer that is not JSON", job.id);
  if (json.contains("error")) fail("the launcher of job {} says: {}", job.id, json_text(json["error"]));
  return view_from_json(json);
}

TableStyle style_of(const Options& options) {
  TableStyle style{.all = options.all};
  if (isatty(STDOUT_FILENO) != 1) return style;
  const char* const no_color = std::getenv("NO_COLOR");
  style.color = no_color == nullptr || *no_color == '\0';
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1) style.columns = size.ws_col;
  return style;
}

// False where nobody reads any more.
bool print(const std::string& text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
}

int list(const std::vector<RunningJob>& jobs, const Options& options) {
  std::vector<ReadView> views;
  std::string lines;
  for (const RunningJob& job : jobs) {
    try {
      const auto answer = ask(job, "job");
      if (!answer) continue;
      views.push_back(read(job, *answer));
      lines += *answer + "\n";
    } catch (const Error& error) {
      say("lockstep status", error.what());
    }
  }
  print(options.json ? lines
                     : jobs_table(views, style_of(options)) + "lockstep status JOB shows one of them\n");
  return views.empty() ? 1 : 0;
}

int show_url(const Options& options) {
  const RunningJob job = find_job(options.job);
  const auto answer = ask(job, "page");
  if (!answer) fail("job {} has ended while it was asked", job.id);
  const auto json = try_parse_json(*answer);
  const std::string url = json.is_object() ? json.value("url", "") : "";
  if (url.empty()) fail("job {} has no status page: start it with --status-port", job.id);
  print(shown(url) + "\n");
  return 0;
}

int show(const Options& options) {
  if (options.url) return show_url(options);
  if (options.job.empty() && !options.watch) {
    const std::vector<RunningJob> jobs = running_jobs();
    if (jobs.size() > 1) return list(jobs, options);
  }
  const RunningJob job = find_job(options.job);
  for (bool first = true;; first = false) {
    std::optional<std::string> answer;
    try {
      answer = ask(job, "status");
    } catch (const Error&) {
      if (first) throw;
    }
    if (!answer) {
      if (first) fail("job {} has ended while it was asked", job.id);
      if (!options.json) print(fmt::format("job {} has ended\n", shown(job.id)));
      return 0;
    }
    std::string text = *answer + "\n";
    if (!options.json) {
      text = status_table(read(job, *answer), style_of(options));
      if (options.watch && isatty(STDOUT_FILENO) == 1) text = "\033[H\033[J" + text;
      if (options.watch && isatty(STDOUT_FILENO) != 1) text += "\n";
    }
    if (!print(text) || !options.watch) return 0;
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

}  // namespace

void add_status_command(CLI::App& tool, int* status) {
  auto options = std::make_shared<Options>();
  CLI::App* command = tool.add_subcommand("status", "Show the state of each process of a running job");
  command->footer(kMore);
  command->add_option("job", options->job, "The job's id, or its beginning (default: the only one)")
      ->option_text("[JOB]");
  command->add_flag("--watch", options->watch, "Repeat every second, until the job has ended");
  command->add_flag("--json", options->json, "A line of JSON");
  command->add_flag("--url", options->url, "The address of the job's status page, with its token");
  command->add_flag("--all", options->all, "A line for each process, however many there are");
  command->callback([=] {
    try {
      *status = show(*options);
    } catch (const Error& error) {
      say("lockstep status", error.what());
      *status = 1;
    }
  });
}

}  // namespace lockstep::cli
