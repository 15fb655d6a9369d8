// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/coordination/protocol/service.h"
#include "lockstep/coordination/protocol/task.h"

namespace lockstep::coordination {

/// "2 of 4 processes have joined: 0 (host a), 2 (host b); missing: processes 1, 3 of 4".
std::string membership_of(const std::vector<TaskInfo>& tasks);

/// The same from the service; if the service does not answer, or is none, advice on what to check. Blocks for
/// at most 2 s for each of a few calls.
std::string ask_membership(Service& service);

}  // namespace lockstep::coordination
