// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace CLI {
class App;
}

namespace lockstep::cli {

/// Adds `ckpt` to the tool: shows, verifies, compares, exports and removes checkpoints, without devices and
/// without the processes that wrote them. `status` gets the exit status: 0, 1 for a difference or damage, 2
/// for other errors.
void add_ckpt_command(CLI::App& tool, int* status);

}  // namespace lockstep::cli
