// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep::collectives {

/// While this object exists, children that this process forks do not inherit the descriptor (its number
/// refers to /dev/null there). Otherwise a socket that a child also holds would stay open when this process
/// dies, and nobody would notice its death. May be made and destroyed by any thread.
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
