#pragma once

#include <map>
#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/cluster/place.h"
#include "lockstep/cluster/system.h"

namespace lockstep::runtime {

/// What libtpu is to find in the process's environment, by JAX's cloud_tpu_init: each variable that is to be
/// set, where that differs from what is. libtpu itself asks GKE's variables, or the metadata server, for the
/// worker's number, the other workers, the bounds of the slice and the slices (TPU_WORKER_ID,
/// TPU_WORKER_HOSTNAMES, TPU_HOST_BOUNDS, MEGASCALE_…): what of them is set stays. Where there are no chips,
/// or `described` devices are compiled for, it is told to ask nobody, to write no logs, and to let other
/// processes in.
std::map<std::string, std::string> tpu_environment(const Environment& environment,
                                                   const cluster::System& system, bool described);

}  // namespace lockstep::runtime
