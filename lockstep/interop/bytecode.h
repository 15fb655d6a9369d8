// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "lockstep/interop/module.h"

namespace lockstep::interop {

/// The module of a portable artifact of StableHLO: MLIR's bytecode of versions 0 to 6. Throws Error where the
/// bytes are something else, of a newer version, damaged, or cut short.
Module read_bytecode(std::string_view bytes);

}  // namespace lockstep::interop
