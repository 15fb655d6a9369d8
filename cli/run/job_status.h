// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <optional>
#include <string>
#include <vector>

#include "cli/run/job.h"
#include "cli/status/job_server.h"
#include "cli/status/status_board.h"

namespace lockstep::cli {

/// The launcher's information about its job for others: a board to which it writes, which is published to the
/// server each second. Used by the launcher's one thread.
class JobStatus {
 public:
  /// As for JobServer.
  JobStatus(const JobOptions& options, const std::string& job_id);

  StatusBoard& board() { return board_; }
  JobServer& server() { return server_; }

  /// Messages for the user at the start: the page's address, to whom it is open, and what does not work. The
  /// address has its token only on a terminal: other standard error is often a file that others can read.
  std::vector<std::string> words(bool terminal) const;

  /// The descriptor to poll before `work`, and when `work` is due without an event.
  pollfd polled() const { return {server_.descriptor(), POLLIN, 0}; }
  Steady::time_point next_work() const { return next_; }
  void work();

  /// Publishes now.
  void publish();

 private:
  const std::optional<StatusPageOptions> page_;
  StatusBoard board_;
  JobServer server_;
  Steady::time_point next_;
};

}  // namespace lockstep::cli
