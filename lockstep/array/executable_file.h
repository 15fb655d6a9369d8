// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/array/computation.h"

namespace lockstep::internal {

/// A file's description of the call besides the computation: the contents of each argument, and the paths of
/// the result's arrays.
struct CallDescription {
  std::vector<std::vector<std::string>> arguments;
  std::vector<std::string> results;
};

/// A compiled computation as bytes (docs/executables.md), with its machine code. Throws Error if it cannot be
/// used in another process: it calls functions of this one, or is checked for NaNs; and if it is not
/// compiled.
std::string write_executable(const Computation& computation, const CallDescription& call);

struct LoadedExecutable {
  std::shared_ptr<const Computation> computation;
  CallDescription call;
};

/// The computation in such bytes, for this process's devices. Nothing is compiled. Throws Error if the bytes
/// were cut off or changed or are something else, are for another platform, version of the plugin or
/// processor, for devices that do not exist, or need a handler that is not registered; PjrtError if the
/// plugin refuses the code.
LoadedExecutable read_executable(std::string_view bytes);

}  // namespace lockstep::internal
