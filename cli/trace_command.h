// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

namespace CLI {
class App;
}

namespace lockstep::cli {

class JobAnswer;
class JobTrace;

/// Adds `trace` to the tool: asks the launcher of a running job for a trace. `status` gets the exit status:
/// 0, or 1 if there is no trace.
void add_trace_command(CLI::App& tool, int* status);

/// The name of the request.
inline constexpr char kTraceRequest[] = "trace";

/// The launcher's side: takes the trace requested by {"request": "trace", "file": PATH, "seconds": N}, sent
/// with a descriptor of the file; `trace` is null if no processes run. The answer is {"begun": true},
/// and once the file is written {"done": true, "words": LINE}; {"error": WHY} if there is no trace.
void answer_trace_request(JobTrace* trace, const nlohmann::json& request,
                          const std::shared_ptr<JobAnswer>& answer);

}  // namespace lockstep::cli
