// SPDX-License-Identifier: Apache-2.0
#include "lockstep/testing/spawn.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string_view>

#include "lockstep/base/fail.h"
#include "lockstep/testing/child_protocol.h"

namespace lockstep::testing {
namespace {

constexpr const char* kSelf = "/proc/self/exe";

bool tells_a_place(std::string_view variable) {
  for (std::string_view prefix : {"LOCKSTEP_", "JAX_", "SLURM_", "OMPI_", "PMI_", "PMIX_"}) {
    if (variable.starts_with(prefix))
      return !variable.starts_with("LOCKSTEP_PJRT_PLUGIN=") && !variable.starts_with("LOCKSTEP_TRUST=");
  }
  return false;
}

std::vector<std::string> environment_of(const SpawnOptions& options) {
  std::map<std::string, std::string> given = options.variables;
  given[kChildVariable] = options.program.empty() ? options.child : kExecuteChild;
  given[kIndexVariable] = std::to_string(options.index);
  given[kCountVariable] = std::to_string(options.count);
  given[kParentVariable] = std::to_string(getpid());
  std::vector<std::string> all;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (!tells_a_place(text) && !given.contains(std::string(text.substr(0, text.find('=')))))
      all.emplace_back(text);
  }
  for (const auto& [name, value] : given) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& string : strings) result.push_back(string.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

pid_t spawn_child(const SpawnOptions& options) {
  std::vector<std::string> arguments = {options.child.empty() ? "child" : options.child};
  if (!options.program.empty()) arguments.push_back(options.program.string());
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  std::vector<std::string> environment = environment_of(options);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, options.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND,
                                   0644);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawn_file_actions_addchdir_np(&actions, options.folder.c_str());

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  sigfillset(&signals);
  posix_spawnattr_setsigdefault(&attributes, &signals);

  pid_t pid = -1;
  const int error = posix_spawn(&pid, kSelf, &actions, &attributes, pointers(arguments).data(),
                                pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    fail("[testing] cannot start process {} of {}: {}", options.index, options.count, std::strerror(error));
  }
  return pid;
}

}  // namespace lockstep::testing
