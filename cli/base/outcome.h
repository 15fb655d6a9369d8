// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::cli {

/// How a process ended.
struct Outcome {
  int exit_code = 0;
  int signal = 0;             ///< the signal that ended it; 0 if none did
  std::string lost;           ///< why contact was lost before it was seen to end; else empty
  bool with_another = false;  ///< lost because another host was lost, over which its own was reached

  bool success() const { return exit_code == 0 && signal == 0 && lost.empty(); }

  /// As in a shell: 128 plus the signal's number if one ended it; 1 if it was lost.
  int status() const { return signal != 0 ? 128 + signal : lost.empty() ? exit_code : 1; }

  /// "died: exit status 3", "died: signal 9 (SIGKILL)", "died: host b does not answer".
  std::string describe() const;
};

/// "SIGKILL"; "signal 99" for one without a name.
std::string signal_name(int signal);

/// One process of the job: whether it runs, and how it ended.
struct Fate {
  int pid = 0;
  std::optional<Outcome> outcome;  ///< nullopt while it runs
  int sent_signal = 0;             ///< the last signal by which the launcher ended it; 0: none
};

/// For processes that were found to have ended at the same time: the index into `ended` of the likeliest
/// cause. Signals and lost hosts come first, because other processes only react to them; then the given
/// order. SIGABRT counts as an exit, because an uncaught exception ends a process with it.
std::size_t likeliest_cause(const std::vector<Outcome>& ended);

/// The launcher's last lines: the first failure and how the failed processes ended (`causes`; may be empty),
/// which processes ended as a consequence, and which had to be ended. Without the last line's end.
std::string closing_report(const std::string& failure, const std::vector<int>& causes,
                           const std::vector<Fate>& fates);

/// "processes 1, 3 on host a, process 4 on host b"; after some names a count of the rest.
std::string name_by_host(const std::vector<int>& processes, const std::vector<std::string>& host_of_process);

}  // namespace lockstep::cli
