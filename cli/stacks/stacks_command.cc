// SPDX-License-Identifier: Apache-2.0
#include "cli/stacks/stacks_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/base/console.h"
#include "cli/base/job_socket.h"
#include "cli/base/words.h"
#include "cli/stacks/merge.h"
#include "cli/stacks/print.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/json.h"

namespace lockstep::cli {
namespace {

struct Given {
  std::string job;
  std::vector<int> pids;
  double limit = 3;
  bool all = false;
};

constexpr int kLeastColumns = 80, kMostColumns = 120;

int show_stacks(const Given& given) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  StackOptions options;
  options.limit = std::chrono::milliseconds(static_cast<int>(given.limit * 1000));
  std::vector<ProcessStacks> taken = take_stacks(given.pids, options);
  const double took = std::chrono::duration<double>(Clock::now() - start).count();

  std::vector<NumberedStacks> processes;
  std::chrono::microseconds paused{0};
  for (std::size_t i = 0; i < taken.size(); ++i) {
    paused = std::max(paused, taken[i].paused);
    processes.push_back({given.pids[i], std::move(taken[i])});
  }
  const MergedStacks merged = merge_stacks(processes, given.all);
  const OutputTarget target = Console().out();
  const PrintOptions print{
      .columns = target.terminal ? std::clamp(target.columns, kLeastColumns, kMostColumns) : kMostColumns,
      .color = target.color};
  std::fputs(print_stacks(merged, print).c_str(), stdout);
  const auto seen = merged.num_processes - merged.refused.size() - merged.ended.size();
  if (seen > 0) {
    std::printf("\nThe stacks of %zu process%s took %.2f s; each stood still for %.1f ms or less.\n", seen,
                seen == 1 ? "" : "es", took, static_cast<double>(paused.count()) / 1000);
  }
  return merged.refused.empty() && merged.ended.empty() ? 0 : 1;
}

// The launcher takes them: it is the parent, which may trace its processes where others may not.
int show_stacks_of_job(const Given& given) {
  const RunningJob job = find_job(given.job);
  const OutputTarget target = Console().out();
  JobConnection connection(job);
  const nlohmann::json request = {
      {"request", "stacks"},
      {"all", given.all},
      {"limit", given.limit},
      {"columns", target.terminal ? std::clamp(target.columns, kLeastColumns, kMostColumns) : kMostColumns},
      {"color", target.color}};
  connection.send(json_text(request) + "\n");
  const auto line = connection.line(std::chrono::milliseconds(static_cast<long>(given.limit * 1000)) +
                                    JobConnection::kUntilAnswer);
  if (!line) fail("job {} has ended while it was asked", job.id);
  const auto answer = try_parse_json(*line);
  if (!answer.is_object()) fail("the launcher of job {} gave an answer that is not JSON", job.id);
  if (answer.contains("error")) fail("the launcher of job {} says: {}", job.id, json_text(answer["error"]));
  std::fputs(answer.value("text", "").c_str(), stdout);
  return answer.value("complete", false) ? 0 : 1;
}

int run(const Given& given) {
  try {
    return given.pids.empty() ? show_stacks_of_job(given) : show_stacks(given);
  } catch (const Error& error) {
    say("lockstep stacks", error.what());
    return 1;
  }
}

}  // namespace

void add_stacks_command(CLI::App& tool, int* status) {
  auto given = std::make_shared<Given>();
  CLI::App* command = tool.add_subcommand("stacks", "Show the stacks of processes, merged into one tree");
  command->footer(
      "lockstep stacks [JOB] [OPTIONS]                the job whose id begins with JOB, or this user's "
      "only one\n"
      "lockstep stacks --pid PID[,PID...] [OPTIONS]   processes of this host\n\n"
      "Takes the stacks of all threads from outside, of processes that run, wait, spin or are stopped. Each "
      "is\n"
      "stopped for some milliseconds and continues unchanged. Common parts are shown once; where the stacks\n"
      "differ, the smallest group of processes comes first. Processes are named by their pids. The exit "
      "status\n"
      "is 1 if the stacks of a process could not be taken.");
  command->add_option("job", given->job, "The job's id, or its beginning (default: the only one)")
      ->option_text("[JOB]");
  command->add_option("-p,--pid", given->pids, "Processes of this host")
      ->delimiter(',')
      ->check(CLI::PositiveNumber.description(""))
      ->option_text("PID[,PID...]");
  command->add_flag(
      "--all", given->all,
      "Include threads that wait for work, and functions of the standard library between others");
  command->add_option("--limit", given->limit, "How long the stacks of a process may take (default: 3)")
      ->check(CLI::Range(0.1, 600.0).description(""))
      ->option_text("SECONDS");
  command->callback([given, status] { *status = run(*given); });
}

}  // namespace lockstep::cli
