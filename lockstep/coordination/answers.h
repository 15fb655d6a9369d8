#pragma once

#include <functional>
#include <vector>

namespace lockstep::coordination {

/// Answers that a change of state made due, in order. They are given once the lock on the state is released,
/// because they may call the service again.
using Answers = std::vector<std::function<void()>>;

}  // namespace lockstep::coordination
