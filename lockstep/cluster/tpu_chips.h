#pragma once

#include "lockstep/cluster/system.h"

namespace lockstep::cluster {

/// How many TPU chips this machine shows among its PCI devices.
int count_tpu_chips(const System& system);

}  // namespace lockstep::cluster
