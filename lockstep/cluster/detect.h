#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/cluster/place.h"

namespace lockstep::cluster {

/// One environment that can tell a process its place.
struct ClusterType {
  const char* name;  ///< As in Place::cluster.

  /// The place, or nullopt where the environment shows no sign of this cluster type. Throws
  /// InitializationError where it does but is incomplete or contradicts itself, listing what is there and
  /// what is missing.
  std::optional<Place> (*place)(const Environment& environment);
};

/// All cluster types, in the order in which they are asked; the last always answers.
const std::vector<ClusterType>& cluster_types();

/// The place that the first cluster type to answer gives, or the one named by `forced`, where it is not
/// empty. Throws InitializationError as ClusterType::place does, for a name that is none (listing the names),
/// and where the named type sees no sign of itself.
Place detect(const Environment& environment, const std::string& forced = "");

}  // namespace lockstep::cluster
