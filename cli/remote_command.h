#pragma once

#include <string>
#include <vector>

namespace lockstep::cli {

/// The words of a command line: blanks separate, single and double quotes hold together, nothing else is
/// special. Throws Error where a quote is not closed, or there is no word.
std::vector<std::string> split_words(const std::string& text);

/// The word as a POSIX shell reads it back.
std::string shell_quoted(const std::string& word);

/// What runs the agent on another host: `rsh` (ssh or what takes its place: HOST COMMAND follow) with, for
/// ssh, the options that keep it from asking questions. `tool` is the file of the lockstep tool there.
std::vector<std::string> rsh_command(const std::vector<std::string>& rsh, const std::string& host,
                                     const std::string& tool);

/// The same by Slurm's srun, on a node of this job's allocation.
std::vector<std::string> srun_command(const std::string& node, const std::string& tool);

}  // namespace lockstep::cli
