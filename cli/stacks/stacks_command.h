// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace CLI {
class App;
}

namespace lockstep::cli {

/// Adds `stacks` to the tool: the merged stacks of processes of this host. `status` gets the exit status: 0
/// if the stacks of all were taken, 1 otherwise.
void add_stacks_command(CLI::App& tool, int* status);

}  // namespace lockstep::cli
