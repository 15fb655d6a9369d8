#pragma once

namespace lockstep::collectives {

/// As long as it stands, a child that this process forks does not get the descriptor (/dev/null has its
/// number there): a socket that a child holds too would not end with this process, so nobody would see that
/// it has died. May be made and destroyed by any thread.
class NotForChildren {
 public:
  explicit NotForChildren(int descriptor);
  ~NotForChildren();
  NotForChildren(const NotForChildren&) = delete;
  NotForChildren& operator=(const NotForChildren&) = delete;

 private:
  const int descriptor_;
};

}  // namespace lockstep::collectives
