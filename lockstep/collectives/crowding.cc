// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/crowding.h"

namespace lockstep::collectives {

void Crowding::add(const cpu_set_t& cpus, int devices) {
  std::lock_guard lock(mutex_);
  CPU_OR(&cpus_, &cpus_, &cpus);
  devices_ += devices;
  crowded_ = devices_ > CPU_COUNT(&cpus_) || (quota_ && devices_ > *quota_);
}

}  // namespace lockstep::collectives
