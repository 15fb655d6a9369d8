// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace lockstep::cli {

struct ChildOptions {
  std::string program;                 ///< the path of the file to execute
  std::vector<std::string> arguments;  ///< beginning with the program's name
  std::vector<std::string> environment;
  int inherited = -1;  ///< a descriptor of this process that the child keeps, with the same number; -1: none
  std::vector<int> cores;  ///< cores to bind it to; empty: not bound
  bool own_group = true;   ///< give it a process group of its own, so that it does not get the terminal's
                           ///< signals

  /// It starts with INT, TERM and HUP blocked, for a command that carries a connection, such as ssh:
  /// otherwise a stop signal to all processes of this host would cut off those on other hosts before they
  /// have saved.
  bool shielded = false;

  /// Its standard input: /dev/null, this process's own, or a pipe.
  enum class In { kNull, kInherit, kPipe } in = In::kNull;
};

/// A started process, and the non-blocking ends of the pipes for reading its output and writing its input.
/// The owner closes them and waits for the process.
struct Child {
  pid_t pid = -1;
  int in = -1;  ///< -1 if its input is not a pipe
  int out = -1;
  int err = -1;
};

/// Starts the process, with the limit of descriptors with which this process was started. It is killed when
/// the calling thread ends, even by a signal. Throws std::system_error with the errno of the failure, such as
/// ENOENT and EACCES.
Child start_child(const ChildOptions& options);

/// Whether the errno of a failure means that this host lacks processes, descriptors or memory, rather than
/// that something is wrong with the program.
bool is_shortage(int error);

/// The file that a shell would execute for this name: the name itself if it contains a slash, else the first
/// match in PATH. Throws std::system_error: ENOENT if there is none, EACCES if it is not executable.
std::string find_program(const std::string& name);

}  // namespace lockstep::cli
