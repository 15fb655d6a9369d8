// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/call_site.h"
#include "lockstep/data/loader.h"

namespace lockstep::data::internal {

/// Throws DataError, naming the difference, if a loader with this configuration cannot restore `state`.
void check_restorable(const LoaderState& state, const LoaderState& configuration);

/// All processes that have devices of the sharding call it. If their states differ, throws DivergenceError on
/// all of them, with the differences and the processes.
void check_agreement(const Sharding& sharding, const LoaderState& state, const CallSite& site);

}  // namespace lockstep::data::internal
