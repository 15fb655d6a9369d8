// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/phase.h"

#include "lockstep/watch/recorder.h"

namespace lockstep {

Phase::Phase(std::string_view name, const std::source_location& where)
    : thread_([&] {
        const watch::NumberedName numbered = watch::numbered(name);
        return watch::begin_doing(watch::Kind::kPhase, numbered.what, watch::text(CallSite::from(where)),
                                  numbered.number);
      }()) {}

Phase::~Phase() { watch::end_doing(thread_); }

}  // namespace lockstep
