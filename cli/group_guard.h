#pragma once

#include <sys/types.h>

namespace lockstep::cli {

/// A process that kills process groups when this process ends without having done so, even by SIGKILL: what a
/// launched process has started itself is bound to nobody's life. It is a child of this process.
class GroupGuard {
 public:
  GroupGuard();   ///< Throws std::system_error.
  ~GroupGuard();  ///< The groups are left alone.
  GroupGuard(const GroupGuard&) = delete;
  GroupGuard& operator=(const GroupGuard&) = delete;

  /// Guards the group of this id.
  void watch(pid_t group);

 private:
  pid_t guard_ = -1;
  int pipe_ = -1;
};

}  // namespace lockstep::cli
