// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace CLI {
class App;
}

namespace lockstep::cli {

/// Adds `trace` to the tool: asks the launcher of a running job for a trace. `status` gets the exit status:
/// 0, or 1 if there is no trace.
void add_trace_command(CLI::App& tool, int* status);

/// The name of the request, which cli/run/trace_request.h answers.
inline constexpr char kTraceRequest[] = "trace";
inline constexpr double kMostTraceSeconds = 3600;

}  // namespace lockstep::cli
