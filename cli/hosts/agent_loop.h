// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/base/signals.h"
#include "cli/hosts/parent_pipe.h"

namespace lockstep::cli {

/// The loop of an agent or a relay, between its parent and what it runs: the processes of this host, or the
/// agents of others.
class AgentLoop {
 public:
  virtual ~AgentLoop() = default;

  /// Returns the status: 0 when all that it has started has ended, 1 if the parent is gone, 128 + the number
  /// of a signal that comes before it has started anything.
  int run();

 protected:
  virtual void handle(const std::string& line) = 0;       ///< from the parent
  virtual std::chrono::milliseconds silence() const = 0;  ///< the longest of the parent; 0: no limit
  virtual bool has_begun() const = 0;
  virtual bool open() const = 0;  ///< whether something that it has started still runs
  virtual void pass_on(int signal) = 0;
  virtual void add_polled(std::vector<pollfd>& polled) = 0;
  virtual std::optional<std::chrono::steady_clock::time_point> next_work() const = 0;
  virtual void work(std::span<const pollfd> polled) = 0;  ///< gets those that it has added

  Signals signals_;
  ParentPipe parent_;

 private:
  void wait();
};

/// Runs an agent or a relay, and returns its status. `name` is that of its command, for the line about an
/// exception.
int run_below_parent(const char* name, const std::function<int()>& run);

}  // namespace lockstep::cli
