// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/base/call_site.h"
#include "lockstep/jit/call_cache.h"
#include "lockstep/jit/tree_function.h"

namespace lockstep::internal {

/// Runs a form that load_entry made (jit_call.h). Throws TraceError for other arguments than it describes.
std::vector<Array> run_loaded(const CallEntry& entry, std::span<TreeArgument> arguments,
                              const CallSite& site);

}  // namespace lockstep::internal
