// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>
#include <string_view>

namespace lockstep {

namespace watch {
struct Thread;
}

struct PhaseOptions {
  /// Nobody knows how long the phase lasts, as when a server waits for requests: processes that wait for this
  /// one report nothing, and --stall-timeout does not count. Its death is noticed as ever.
  bool idle = false;
};

/// For its lifetime, this thread is in a phase that the user has named: loading data, evaluating, writing a
/// report. If other processes wait for this one, they report the phase as information, not as a warning;
/// `lockstep status` and traces show it. Phases nest. Costs some 50 ns.
///
///     {
///       lockstep::Phase phase("load");
///       read_everything();
///     }
class [[nodiscard]] Phase {
 public:
  explicit Phase(std::string_view name, const std::source_location& where = std::source_location::current())
      : Phase(name, PhaseOptions(), where) {}
  Phase(std::string_view name, PhaseOptions options,
        const std::source_location& where = std::source_location::current());
  ~Phase();
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

 private:
  watch::Thread* thread_;
};

}  // namespace lockstep
