// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <map>
#include <string>

namespace lockstep::cli {

/// All processes that this one has started, directly or not. Earlier children, which a shell leaves when it
/// executes the launcher (`exec > >(tee log); exec lockstep run ...`), do not belong to them.
class Descendants {
 public:
  /// Makes this process the parent of its descendants' orphans, and remembers its existing children. Create
  /// it before starting any.
  Descendants();

  /// Kills all of them, orphans included, and reaps them.
  void kill_all() const;

 private:
  std::map<pid_t, std::string> spared_;  // with the start time of each, because a pid may be reused
};

}  // namespace lockstep::cli
