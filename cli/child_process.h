#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace lockstep::cli {

struct ChildOptions {
  std::string program;                 ///< The path of the file to execute.
  std::vector<std::string> arguments;  ///< With the program's name first.
  std::vector<std::string> environment;
  int inherited = -1;      ///< A descriptor that it keeps, by its number here; -1: none.
  std::vector<int> cores;  ///< To bind it to; empty: not bound.
  bool own_group = true;   ///< A process group of its own, so that the terminal's signals do not reach it.

  /// Its standard input: /dev/null, this process's own, or a pipe.
  enum class In { kNull, kInherit, kPipe } in = In::kNull;
};

/// A process started, and the ends of the pipes from which its output is read and its input written, without
/// blocking. Who holds it closes them and waits for the process.
struct Child {
  pid_t pid = -1;
  int in = -1;  ///< -1 where its input is no pipe.
  int out = -1;
  int err = -1;
};

/// Starts the process, with the limit of descriptors that this one was started with. It is killed when the
/// calling thread ends, even by a signal. Throws std::system_error with the errno of what failed, ENOENT and
/// EACCES among them.
Child start_child(const ChildOptions& options);

/// The file that a shell would execute for this name: itself where it has a slash, else the first in PATH.
/// Throws std::system_error: ENOENT where there is none, EACCES where it may not be executed.
std::string find_program(const std::string& name);

}  // namespace lockstep::cli
