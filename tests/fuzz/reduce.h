// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "tests/fuzz/ir.h"

namespace lockstep::fuzz {

/// Finds what is wrong with a program, or nothing; see examine.
using Examine = std::function<std::string(const Program&)>;

/// A smaller program with a failure of the same kind: what it can do without is left out, one thing after the
/// other, until nothing more goes or the time is over.
Program reduce(Program program, const Examine& examine, std::chrono::seconds at_most);

/// The kind of a failure: where it was, and what the message says but for numbers.
std::string kind_of(const std::string& failure);

}  // namespace lockstep::fuzz
