// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace CLI {
class App;
}

namespace lockstep::cli {

/// Adds `coordinator` to the tool: a coordinator without a launcher, in the foreground, until all processes
/// have left or it is stopped. `status` gets the exit status: 0 if all left cleanly, 1 otherwise.
void add_coordinator_command(CLI::App& tool, int* status);

}  // namespace lockstep::cli
