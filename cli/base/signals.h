// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <vector>

namespace lockstep::cli {

/// Stop signals within this time are one request, unless both are a Ctrl-C on the terminal.
inline constexpr std::chrono::seconds kOneRequest(1);

/// Ignores PIPE and XFSZ: a write to a pipe without a reader, or beyond `ulimit -f`, fails instead of ending
/// this process.
void let_writes_fail();

/// A received signal.
struct Signal {
  int number = 0;
  bool from_terminal =
      false;  ///< sent by the kernel to all of the terminal's foreground group, as for Ctrl-C
};

/// Whether the signal was ignored when this process was started, and still is.
bool is_ignored(int signal);

/// Makes the launcher's signals available for polling: CHLD, INT, TERM, HUP, USR1, USR2, TSTP and CONT.
/// Signals that were ignored when the launcher started, as nohup does for HUP, stay ignored. They are blocked
/// in all threads that are started afterwards, so create it before any; it lives until the process ends.
class Signals {
 public:
  Signals();  ///< throws std::system_error

  /// Readable when a signal has arrived.
  int descriptor() const { return descriptor_; }

  /// The signals since the last call.
  std::vector<Signal> take();

 private:
  int descriptor_ = -1;
};

}  // namespace lockstep::cli
