// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep::cli {

/// Adds `plan` to the tool: runs a program, `command`, for described devices, and prints what it needs.
/// `status` gets the exit status: 0 if all computations were compiled and fit, 1 otherwise.
void add_plan_command(CLI::App& tool, const std::vector<std::string>& command, int* status);

}  // namespace lockstep::cli
