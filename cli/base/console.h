// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "cli/base/outlet.h"
#include "cli/base/output.h"

namespace lockstep::cli {

/// The launcher's standard output and standard error. Nothing blocks: data that their readers have not taken
/// is queued here, and written by the polling loop.
class Console {
 public:
  Console();

  /// The targets live as long as this object.
  OutputTarget out();
  OutputTarget err();

  /// Adds the descriptors to poll before `work`.
  void add_polled(std::vector<pollfd>& polled) const;
  static constexpr std::size_t kPolled = 2;

  /// Writes as much as possible.
  void work();

  /// Whether so much is queued that no more output of processes should be read, until the reader has taken
  /// half of it.
  bool full() const { return full_; }

  bool empty() const;

  /// Since when no reader has taken queued data; now if nothing is queued.
  std::chrono::steady_clock::time_point stuck_since() const;

 private:
  // One outlet if both are the same file, so that lines keep their order.
  std::unique_ptr<Outlet> out_, other_err_;
  Outlet& err_;
  bool full_ = false;
};

}  // namespace lockstep::cli
