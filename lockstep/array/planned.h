// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/program/lower.h"
#include "lockstep/program/program.h"
#include "lockstep/runtime/plan.h"
#include "lockstep/sharding/communication.h"
#include "lockstep/sharding/mesh.h"

namespace lockstep::internal {

/// Compiles what each device of `mesh` does for the described devices, with these options of the compiler's,
/// and adds it to the runtime's plan, with its collectives and its largest values. What does not fit into a
/// device's memory is in the plan as such. Throws PjrtError where the compiler refuses for another reason.
std::shared_ptr<runtime::PlannedComputation> plan_computation(
    const std::string& name, const ir::Program& per_device, const ir::LoweredProgram& lowered,
    const Mesh& mesh, const std::vector<sharding::CommunicationLine>& collectives,
    const CompilerOptions& options);

}  // namespace lockstep::internal
