#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/program/lowering.h"
#include "lockstep/program/program.h"
#include "lockstep/runtime/plan.h"
#include "lockstep/sharding/communication.h"
#include "lockstep/sharding/mesh.h"

namespace lockstep::internal {

/// Compiles the program of each device of `mesh` for the described devices, and adds it to the runtime's
/// plan, with its collectives and its largest values. A program that does not fit into a device's memory is
/// marked as such. Throws PjrtError if the compiler fails for another reason.
std::shared_ptr<runtime::PlannedComputation> plan_computation(
    const std::string& name, const Program& per_device, const LoweredProgram& lowered, const Mesh& mesh,
    const std::vector<sharding::CommunicationLine>& collectives);

}  // namespace lockstep::internal
