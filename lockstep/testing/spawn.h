// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace lockstep::testing {

/// One process to start; as in ProcessesOptions. `variables` are added to the environment of children.
struct SpawnOptions {
  std::filesystem::path program;
  std::string child;
  std::vector<std::string> arguments;
  std::map<std::string, std::string> variables;
  int index = 0;
  int count = 1;
  std::filesystem::path folder;  ///< its working folder, which exists
  std::filesystem::path log;     ///< its standard output and standard error; created anew
};

/// Starts this executable again as the requested child. Standard input is empty, no other descriptor of this
/// process is open in it, and no signal is blocked or ignored. Throws Error if it cannot be started.
pid_t spawn_child(const SpawnOptions& options);

}  // namespace lockstep::testing
