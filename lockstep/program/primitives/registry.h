// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/program/primitive.h"

namespace lockstep::ir {

/// All primitives. To add one, write its block in the file of its family, declare it in that family's header,
/// and add its line to the list in registry.cc.
std::span<const Primitive* const> all_primitives();

}  // namespace lockstep::ir
