#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::cli {

/// How a process ended.
struct Outcome {
  int exit_code = 0;
  int signal = 0;    ///< Which ended it; 0 where none did.
  std::string lost;  ///< Why nothing more will be heard of it, though it was not seen to end; else empty.

  bool success() const { return exit_code == 0 && signal == 0 && lost.empty(); }

  /// As a shell gives it: 128 and the signal where one ended it; 1 where it was lost.
  int status() const { return signal != 0 ? 128 + signal : lost.empty() ? exit_code : 1; }

  /// "died: exit status 3", "died: signal 9 (SIGKILL)", "died: host b does not answer".
  std::string describe() const;
};

/// "SIGKILL"; "signal 99" for one without a name.
std::string signal_name(int signal);

/// What became of one process of the job.
struct Fate {
  int pid = 0;
  std::optional<Outcome> outcome;  ///< None while it runs.
  int sent_signal = 0;             ///< The last signal by which the launcher ended it; 0 where it sent none.
};

/// Of processes found to have ended at the same moment: the index into `ended` of the one that is likeliest
/// to be the cause. Signals and lost hosts come first, for the others only notice; then the order given.
/// SIGABRT counts as an exit, since it is how an exception that nobody catches ends a process.
std::size_t likeliest_cause(const std::vector<Outcome>& ended);

/// The launcher's last lines: the first failure and how those ended to whom it happened (none: to no
/// process), who followed by itself, who had to be ended. Without the last line's end.
std::string closing_report(const std::string& failure, const std::vector<int>& causes,
                           const std::vector<Fate>& fates);

/// "processes 1, 3 on host a, process 4 on host b"; after some names a count of the rest.
std::string name_by_host(const std::vector<int>& processes, const std::vector<std::string>& host_of_process);

}  // namespace lockstep::cli
