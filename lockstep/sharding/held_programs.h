// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>

#include "lockstep/program/program.h"
#include "lockstep/sharding/communication.h"

namespace lockstep::sharding {

/// Rewrites one program and stores the reasons of what it writes: those of the program itself under null.
/// Returns nullopt if it stays the same.
using RewriteProgram = std::function<std::optional<ir::Program>(const ir::Program&, CommunicationReasons&)>;

/// Rewrites the programs that an equation holds, such as a loop's body, and adds their reasons to `reasons`.
/// Returns whether one has changed.
bool rewrite_held(ir::Equation& equation, CommunicationReasons& reasons, const RewriteProgram& rewrite);

}  // namespace lockstep::sharding
