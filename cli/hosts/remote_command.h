// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep::cli {

/// The words of a command line: separated by blanks; single and double quotes group, and nothing else is
/// special. Throws Error if a quote is not closed, or there is no word.
std::vector<std::string> split_words(const std::string& text);

/// The word, quoted for a POSIX shell.
std::string shell_quoted(const std::string& word);

/// The command that runs `role`, "host-agent" or "host-relay", on another host: `rsh` (ssh or its
/// replacement; HOST COMMAND is appended), for ssh with options that disable questions. `tool` is the path of
/// the lockstep tool there.
std::vector<std::string> rsh_command(const std::vector<std::string>& rsh, const std::string& host,
                                     const std::string& tool, const std::string& role);

/// The same with Slurm's srun, on a node of this job's allocation.
std::vector<std::string> srun_command(const std::string& node, const std::string& tool,
                                      const std::string& role);

}  // namespace lockstep::cli
