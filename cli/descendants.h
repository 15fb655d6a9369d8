#pragma once

#include <sys/types.h>

#include <map>
#include <string>

namespace lockstep::cli {

/// The processes that this one starts, with all that they start. Those that were its children before, as a
/// shell leaves them that executes the launcher (`exec > >(tee log); exec lockstep run ...`), are not among
/// them.
class Descendants {
 public:
  /// Makes this process the parent of its descendants' orphans, and remembers the children that are there:
  /// make it before any is started.
  Descendants();

  /// Kills all of them, orphans included, and reaps them.
  void kill_all() const;

 private:
  std::map<pid_t, std::string> spared_;  // with the moment of each one's start, for a pid may come again
};

}  // namespace lockstep::cli
