#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep::cli {

/// Adds `run` to the tool; `status` gets the exit status when it runs. `command` is what followed "--", empty
/// where there was none: then the first word that is no option begins the program's command line.
void add_run_command(CLI::App& tool, const std::vector<std::string>& command, int* status);

}  // namespace lockstep::cli
