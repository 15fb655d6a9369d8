// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep::cli {

/// Adds `run` to the tool; `status` gets the exit status. `command` is the text after "--"; if it is empty,
/// the first word that is not an option begins the program's command line.
void add_run_command(CLI::App& tool, const std::vector<std::string>& command, int* status);

}  // namespace lockstep::cli
