// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/cluster/place.h"
#include "lockstep/cluster/system.h"

namespace lockstep::cluster {

/// The place given by the first cluster type that matches, or by the type `forced`, if not empty; with "none"
/// (JAX's name: "deactivate") the process is a job of its own. LOCKSTEP_LOCAL_DEVICE_IDS, LOCKSTEP_JOB_ID,
/// LOCKSTEP_ATTEMPT and LOCKSTEP_JOB_SECRET are added for every type.
///
/// Throws InitializationError as ClusterType::place does; for an unknown name (listing the names); if the
/// named type does not match; and if LOCKSTEP_NUM_PROCESSES or LOCKSTEP_PROCESS_ID contradicts the
/// launcher.
Place detect(const Environment& environment, const std::string& forced = "",
             const System& system = System::real());

/// As detect, but nullopt if only "single" would match.
std::optional<Place> find_place(const Environment& environment, const std::string& forced = "",
                                const System& system = System::real());

/// The place with the values of LOCKSTEP_LOCAL_DEVICE_IDS, LOCKSTEP_JOB_ID, LOCKSTEP_ATTEMPT and
/// LOCKSTEP_JOB_SECRET. Throws InitializationError for invalid numbers.
Place with_identity(const Environment& environment, Place place);

/// A launcher's variable that says that the process is one of several: "PMI_SIZE=4"; nullopt if there is
/// none. The variables of `lockstep run` and the explicit ones are ignored.
std::optional<std::string> sign_of_others(const Environment& environment);

}  // namespace lockstep::cluster
