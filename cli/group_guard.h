#pragma once

#include <sys/types.h>

#include <string>

namespace lockstep::cli {

/// Kills process groups at the end of its life, or when this process ends without that, even by SIGKILL: what
/// a launched process has started itself is bound to nobody's life. It is done by a child of this process.
class GroupGuard {
 public:
  /// `job_here`: where it is not empty, those of the job of this id that stand in this process's own group
  /// are killed, too. Throws std::system_error.
  explicit GroupGuard(const std::string& job_here);
  ~GroupGuard();  ///< Returns when the groups have been killed.
  GroupGuard(const GroupGuard&) = delete;
  GroupGuard& operator=(const GroupGuard&) = delete;

  /// The group of this id is to be killed.
  void watch(pid_t group) { tell(group); }

  /// It has no member any more, so its id may become another's.
  void forget(pid_t group) { tell(-group); }

 private:
  void tell(pid_t group);

  pid_t guard_ = -1;
  int pipe_ = -1;
};

/// `lockstep end-group`, which the guard becomes for those in a group that holds others, too: kills the
/// members of the group whose environment names the job. Returns the exit status.
int end_group_members(pid_t group, const std::string& job_id);

}  // namespace lockstep::cli
