// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/phase.h"

#include "lockstep/watch/recorder.h"

namespace lockstep {

Phase::Phase(std::string_view name, PhaseOptions options, const std::source_location& where)
    : thread_(watch::begin_doing(options.idle ? watch::Kind::kIdle : watch::Kind::kPhase, name,
                                 CallSite::from(where))) {}

Phase::~Phase() { watch::end_doing(thread_); }

}  // namespace lockstep
