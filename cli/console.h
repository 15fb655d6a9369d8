#pragma once

#include <memory>
#include <vector>

#include "cli/outlet.h"
#include "cli/output.h"

namespace lockstep::cli {

/// The launcher's standard output and standard error. Nothing blocks: what their readers do not take yet
/// waits here, to be written from the loop that polls.
class Console {
 public:
  Console();

  /// These live as long as this object.
  OutputTarget out();
  OutputTarget err();

  /// Adds what to poll before `work`.
  void add_polled(std::vector<pollfd>& polled) const;
  static constexpr std::size_t kPolled = 2;

  /// Writes what can be written now.
  void work();

  /// So much waits that no more output of processes should be read, until the reader has taken half of it.
  bool full() const { return full_; }

  bool empty() const;

  /// Since when no reader has taken anything of what waits; now where nothing waits.
  std::chrono::steady_clock::time_point stuck_since() const;

 private:
  // One where both are the same file, so that lines keep their order.
  std::unique_ptr<Outlet> out_, other_err_;
  Outlet& err_;
  bool full_ = false;
};

}  // namespace lockstep::cli
