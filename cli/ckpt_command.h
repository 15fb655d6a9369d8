#pragma once

namespace CLI {
class App;
}

namespace lockstep::cli {

/// Adds `ckpt` to the tool: looks into checkpoints, checks, compares, exports and removes them, without
/// devices and without the processes that wrote them. `status` gets the exit status when it runs: 0, 1 for a
/// difference or damage, 2 where it cannot do it.
void add_ckpt_command(CLI::App& tool, int* status);

}  // namespace lockstep::cli
