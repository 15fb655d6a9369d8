// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/array/computation_text.h"
#include "lockstep/array/data.h"
#include "lockstep/base/fingerprint.h"
#include "lockstep/collectives/plan.h"
#include "lockstep/program/cost.h"
#include "lockstep/program/large_values.h"
#include "lockstep/program/lower.h"
#include "lockstep/sharding/mesh.h"

namespace lockstep::internal {

/// What is compiled: the same in all processes of its mesh. A file for another process has all of it, and the
/// machine code (executable_file.h).
struct LoweredComputation {
  std::string name;
  std::string signature;  ///< for messages, "step(f32[8])"
  ComputationText text;
  ir::ProgramCost counted;
  Fingerprint fingerprint = 0;
  bool takes_position = false;
  bool native_collectives = false;  ///< for all devices at once, with collectives of the platform's own
  ir::CodeTraits traits;
  std::optional<Mesh> mesh;  ///< always there once it is lowered
  std::vector<collectives::Collective> collectives;
  std::vector<std::string> ffi_targets;  ///< the user's handlers that it calls
  std::vector<ir::LargeValue> largest;   ///< where the devices count their memory

  std::vector<ArrayTypeRef> inputs, outputs;
  std::vector<ArrayTypeRef> moved;  ///< of inputs that are not where the computation is: what they become
  std::vector<bool> donated;        ///< of inputs

  /// As the compiler gets it.
  ir::LoweredProgram program() const {
    return {.stablehlo = text.stablehlo,
            .fingerprint = fingerprint,
            .collectives = {},
            .native_collectives = native_collectives,
            .takes_position = takes_position,
            .traits = traits};
  }
};

}  // namespace lockstep::internal
