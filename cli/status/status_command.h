// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace CLI {
class App;
}

namespace lockstep::cli {

/// Adds `status` to the tool: the state of the processes of a running job, from its launcher. `status` gets
/// the exit status: 0, or 1 if no job answers.
void add_status_command(CLI::App& tool, int* status);

}  // namespace lockstep::cli
