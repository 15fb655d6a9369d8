// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cli/stacks/stacks.h"

namespace lockstep::cli {

/// The stacks of a process as sent from the agent of its host to the launcher.
nlohmann::json to_json(const ProcessStacks& stacks);
/// Throws Error if it is invalid.
ProcessStacks stacks_from_json(const nlohmann::json& json);

}  // namespace lockstep::cli
