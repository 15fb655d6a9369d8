// SPDX-License-Identifier: Apache-2.0
#include "cli/trace/trace_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "cli/base/job_socket.h"
#include "cli/base/words.h"
#include "cli/trace/trace_file.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/json.h"

namespace lockstep::cli {
namespace {

constexpr std::chrono::seconds kUntilWritten(120);  // after its end

constexpr char kMore[] =
    R"(  lockstep trace --seconds 5 -o t.pftrace          a trace of this user's only running job
  lockstep trace --seconds 5 -o t.pftrace 8a8b     a trace of the job whose id begins with 8a8b

The job's launcher, which must run on this host, takes the trace and writes the file. Open it in
https://ui.perfetto.dev. lockstep run --trace FILE takes one from the start. docs/tracing.md describes the contents.)";

struct Options {
  std::string job, file;
  double seconds = 0;
};

nlohmann::json next(JobConnection& connection, const RunningJob& job, std::chrono::milliseconds timeout) {
  const std::optional<std::string> line = connection.line(timeout);
  if (!line) fail("job {} has ended; see whether its launcher has written the trace", job.id);
  auto json = try_parse_json(*line);
  if (!json.is_object()) fail("the launcher of job {} gave an answer that is not JSON", job.id);
  if (json.contains("error")) fail("job {}: {}", job.id, json["error"].get<std::string>());
  return json;
}

int take_trace(const Options& options) {
  const RunningJob job = find_job(options.job);
  JobConnection connection(job);
  const std::filesystem::path file = std::filesystem::absolute(options.file);
  // In this process: /dev/stdout is its own output, and it may wait for the reader of a FIFO.
  const int descriptor = open_trace(file, 0);
  const nlohmann::json request = {
      {"request", kTraceRequest}, {"file", file.string()}, {"seconds", options.seconds}};
  connection.send(json_text(request) + "\n", descriptor);
  close(descriptor);
  next(connection, job, JobConnection::kUntilAnswer);
  say("lockstep trace", fmt::format("of job {}, for {} s", job.id, options.seconds));
  const auto lasts = std::chrono::milliseconds(static_cast<long>(options.seconds * 1000));
  const nlohmann::json done = next(connection, job, lasts + kUntilWritten);
  say("lockstep trace", done.value("words", ""));
  return 0;
}

}  // namespace

void add_trace_command(CLI::App& tool, int* status) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      tool.add_subcommand("trace", "Write a trace of all processes of a running job, on one clock");
  command->footer(kMore);
  command->add_option("--seconds", options->seconds, "The duration (at most 3600)")
      ->required()
      ->check(CLI::Range(0.001, kMostTraceSeconds).description(""))
      ->option_text("N");
  command->add_option("-o,--output", options->file, "The file to write")->required()->option_text("FILE");
  command->add_option("job", options->job, "The job's id, or its beginning (default: the only one)")
      ->option_text("[JOB]");
  command->callback([=] {
    try {
      *status = take_trace(*options);
    } catch (const Error& error) {
      say("lockstep trace", error.what());
      *status = 1;
    }
  });
}

}  // namespace lockstep::cli
