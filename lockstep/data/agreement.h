#pragma once

#include "lockstep/base/call_site.h"
#include "lockstep/data/loader.h"

namespace lockstep::data::internal {

/// Throws DataError where `state` cannot be restored by a loader of this configuration, naming what differs.
void check_restorable(const LoaderState& state, const LoaderState& configuration);

/// Called by all processes that have devices of the sharding: throws DivergenceError on all of them where
/// their states are not the same, naming what differs and on which processes.
void check_agreement(const Sharding& sharding, const LoaderState& state, const CallSite& site);

}  // namespace lockstep::data::internal
