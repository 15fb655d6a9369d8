// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>

namespace lockstep::cli {

/// Kills process groups when it is destroyed, or when this process ends in another way, even by SIGKILL. It
/// is needed because processes started by a launched process do not end with it. A child of this process does
/// this.
class GroupGuard {
 public:
  /// `job_here`: if not empty, also kills the processes in this process's own group that belong to the job
  /// with this id. Throws std::system_error.
  explicit GroupGuard(const std::string& job_here);
  ~GroupGuard();  ///< returns when the groups have been killed
  GroupGuard(const GroupGuard&) = delete;
  GroupGuard& operator=(const GroupGuard&) = delete;

  /// Adds a group to be killed.
  void watch(pid_t group) { tell(group); }

  /// The group has no members any more, so its id may be reused.
  void forget(pid_t group) { tell(-group); }

 private:
  void tell(pid_t group);

  pid_t guard_ = -1;
  int pipe_ = -1;
};

/// `lockstep end-group`, which the guard executes for a group with other members: kills the members of the
/// group whose environment contains the job's id. Returns the exit status.
int end_group_members(pid_t group, const std::string& job_id);

}  // namespace lockstep::cli
