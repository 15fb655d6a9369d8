#pragma once

#include <vector>

namespace lockstep::cli {

/// A signal that came.
struct Signal {
  int number = 0;
  bool from_terminal =
      false;  ///< Sent by the kernel to all of the terminal's foreground group, as Ctrl-C is.
};

/// Whether the signal was ignored when this process was started, and is still.
bool is_ignored(int signal);

/// Turns the launcher's signals into something to poll: CHLD, INT, TERM, HUP, USR1, USR2, TSTP and CONT. One
/// that was ignored when the launcher started, as nohup leaves HUP, stays ignored. They stay blocked in all
/// threads started afterwards, so make it before there are any; lives until the end of the process.
class Signals {
 public:
  Signals();  ///< Throws std::system_error.

  /// Becomes readable when a signal has come.
  int descriptor() const { return descriptor_; }

  /// What has come since the last call.
  std::vector<Signal> take();

 private:
  int descriptor_ = -1;
};

}  // namespace lockstep::cli
