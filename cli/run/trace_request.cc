// SPDX-License-Identifier: Apache-2.0
#include "cli/run/trace_request.h"

#include <nlohmann/json.hpp>
#include <string>

#include "cli/run/job_trace.h"
#include "cli/status/job_server.h"
#include "cli/trace/trace_command.h"
#include "cli/trace/trace_file.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fail.h"

namespace lockstep::cli {

void answer_trace_request(JobTrace* trace, const nlohmann::json& request,
                          const std::shared_ptr<JobAnswer>& answer) {
  try {
    const auto file = request.find("file"), seconds = request.find("seconds");
    if (file == request.end() || !file->is_string() || seconds == request.end() || !seconds->is_number() ||
        !(seconds->get<double>() > 0 && seconds->get<double>() <= kMostTraceSeconds))
      fail("a request for a trace must have a file and a number of seconds of at most {}", kMostTraceSeconds);
    if (trace == nullptr) fail("no trace can be taken while the job's processes are not running: try again");
    const int descriptor = answer->take_descriptor();
    if (descriptor < 0) fail("a request for a trace must come with a descriptor of its file");
    trace->begin({.file = std::make_shared<TraceFile>(file->get<std::string>(), descriptor),
                  .seconds = seconds->get<double>(),
                  .done = [answer](bool good, const std::string& line) {
                    answer->line(good ? nlohmann::json{{"done", true}, {"words", line}}
                                      : nlohmann::json{{"error", line}});
                  }});
    answer->line({{"begun", true}});
  } catch (const Error& error) {
    answer->line({{"error", error.what()}});
  }
}

}  // namespace lockstep::cli
