// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/cluster/place.h"
#include "lockstep/cluster/system.h"

namespace lockstep::runtime {

/// The environment variables for libtpu, from JAX's cloud_tpu_init: those whose value must change. libtpu
/// itself reads GKE's variables, or the metadata server, for the worker's number, the other workers, the
/// bounds of the slice and the slices (TPU_WORKER_ID, TPU_WORKER_HOSTNAMES, TPU_HOST_BOUNDS, MEGASCALE_…);
/// those that are set are kept. If there are no chips, or the program is compiled for `described` devices,
/// libtpu is told not to query the metadata server, not to write logs, and to allow other processes.
std::map<std::string, std::string> tpu_environment(const Environment& environment,
                                                   const cluster::System& system, bool described);

}  // namespace lockstep::runtime
