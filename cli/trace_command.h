#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

namespace CLI {
class App;
}

namespace lockstep::cli {

class JobAnswer;
class JobTrace;

/// Adds `trace` to the tool: a trace of a running job, which its launcher is asked for. `status` gets the
/// exit status when it runs: 0, or 1 where there is no trace.
void add_trace_command(CLI::App& tool, int* status);

/// What the launcher is asked by.
inline constexpr char kTraceRequest[] = "trace";

/// The launcher's side: takes the trace that {"request": "trace", "file": PATH, "seconds": N} asks for,
/// unless `trace` is null, for no processes run. The answer is {"begun": true}, and once the file is written
/// {"done": true, "words": LINE};
/// {"error": WHY} where there is none.
void answer_trace_request(JobTrace* trace, const nlohmann::json& request,
                          const std::shared_ptr<JobAnswer>& answer);

}  // namespace lockstep::cli
