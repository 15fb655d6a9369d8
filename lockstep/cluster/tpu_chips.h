// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/system.h"

namespace lockstep::cluster {

/// The number of TPU chips among this machine's PCI devices.
int count_tpu_chips(const System& system);

}  // namespace lockstep::cluster
