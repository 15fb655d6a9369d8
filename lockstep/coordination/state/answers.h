// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

namespace lockstep::coordination {

/// Answers to calls that became due by a change of state, in order. They are sent after the lock on the state
/// is released, because they may call the service again.
using Answers = std::vector<std::function<void()>>;

}  // namespace lockstep::coordination
