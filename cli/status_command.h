#pragma once

namespace CLI {
class App;
}

namespace lockstep::cli {

/// Adds `status` to the tool: what the processes of a running job are at, asked of its launcher. `status`
/// gets the exit status when it runs: 0, or 1 where no job answers.
void add_status_command(CLI::App& tool, int* status);

}  // namespace lockstep::cli
