#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/cluster/place.h"
#include "lockstep/cluster/system.h"

namespace lockstep::cluster {

/// One environment that can tell a process its place.
struct ClusterType {
  const char* name;  ///< As in Place::cluster.

  /// The place, or nullopt if the environment shows no sign of this cluster type. Throws
  /// InitializationError where it does but is incomplete or contradicts itself, listing what is there and
  /// what is missing. A function of its arguments only.
  std::optional<Place> (*place)(const Environment& environment, const System& system);
};

/// All cluster types, in the order in which they are asked; the last always answers.
const std::vector<ClusterType>& cluster_types();

/// The place that the first cluster type to answer gives, or the one named by `forced`, where it is not
/// empty; "none" (JAX's name: "deactivate") asks nobody: this process is alone. LOCKSTEP_LOCAL_DEVICE_IDS,
/// LOCKSTEP_JOB_ID, LOCKSTEP_ATTEMPT and LOCKSTEP_JOB_SECRET add to what any type says.
///
/// Throws InitializationError as ClusterType::place does; for a name that is none (listing the names); where
/// the named type sees no sign of itself; and where LOCKSTEP_NUM_PROCESSES or LOCKSTEP_PROCESS_ID says
/// something else than a launcher does.
Place detect(const Environment& environment, const std::string& forced = "",
             const System& system = System::real());

/// As detect, but nullopt if nothing but "single" would answer.
std::optional<Place> find_place(const Environment& environment, const std::string& forced = "",
                                const System& system = System::real());

/// The place with what LOCKSTEP_LOCAL_DEVICE_IDS, LOCKSTEP_JOB_ID, LOCKSTEP_ATTEMPT and LOCKSTEP_JOB_SECRET
/// say. Throws InitializationError for numbers that are none.
Place with_identity(const Environment& environment, Place place);

/// A variable by which a launcher says that the process is one of several: "PMI_SIZE=4"; nullopt if none
/// does. What `lockstep run` and the explicit variables say does not count.
std::optional<std::string> sign_of_others(const Environment& environment);

}  // namespace lockstep::cluster
