#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace lockstep::testing {

/// One process to start; as in ProcessesOptions. `variables` come on top of the environment that children
/// get.
struct SpawnOptions {
  std::filesystem::path program;
  std::string child;
  std::vector<std::string> arguments;
  std::map<std::string, std::string> variables;
  int index = 0;
  int count = 1;
  std::filesystem::path folder;  ///< Its working folder, which exists.
  std::filesystem::path log;     ///< Its standard output and standard error; made new.
};

/// Starts this executable again as the child asked for. Standard input is empty, no other descriptor of this
/// process is open in it, and no signal is blocked or ignored. Throws Error where it cannot be started.
pid_t spawn_child(const SpawnOptions& options);

}  // namespace lockstep::testing
