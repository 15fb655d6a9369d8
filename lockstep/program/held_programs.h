// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "lockstep/program/program.h"

namespace lockstep::ir {

/// Rewrites one program; returns the same pointer if it stays the same.
using RewriteHeld = std::function<std::shared_ptr<const Program>(const std::shared_ptr<const Program>&)>;

/// Rewrites the programs that an equation holds, such as a loop's body. Returns whether one has changed.
bool rewrite_held(Equation& equation, const RewriteHeld& rewrite);

}  // namespace lockstep::ir
