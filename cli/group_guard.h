#pragma once

#include <sys/types.h>

namespace lockstep::cli {

/// Kills process groups at the end of its life, or when this process ends without that, even by SIGKILL: what
/// a launched process has started itself is bound to nobody's life. It is done by a child of this process.
class GroupGuard {
 public:
  GroupGuard();   ///< Throws std::system_error.
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

}  // namespace lockstep::cli
