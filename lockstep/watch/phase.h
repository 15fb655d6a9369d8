#pragma once

#include <source_location>
#include <string_view>

#include "lockstep/watch/recorder.h"

namespace lockstep {

/// For its lifetime this thread is in the user's phase of this name: loading data, evaluating, writing a
/// report. Who waits for this process is told so, as information and not as a warning; `lockstep status` and
/// traces show it. Phases nest. Costs some 50 ns.
///
///     {
///       lockstep::Phase phase("load");
///       read_everything();
///     }
class [[nodiscard]] Phase {
 public:
  explicit Phase(std::string_view name, const std::source_location& where = std::source_location::current())
      : doing_(watch::Kind::kPhase, watch::text(name), watch::text(CallSite::from(where))) {}

 private:
  watch::Doing doing_;
};

}  // namespace lockstep
