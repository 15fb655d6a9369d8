// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/counts.h"

#include "lockstep/cluster/variables.h"

namespace lockstep::cluster {

std::optional<int> cpu_devices_given(const Environment& environment) {
  const auto given = find_variable(environment, {"LOCKSTEP_NUM_CPU_DEVICES", "JAX_NUM_CPU_DEVICES"});
  return given ? std::optional(number_in(*given, 1, kMostCpuDevices)) : std::nullopt;
}

std::optional<int> threads_given(const Environment& environment) {
  const auto given = find_variable(environment, {"NPROC"});
  return given ? std::optional(number_in(*given, 1, kMostThreads)) : std::nullopt;
}

}  // namespace lockstep::cluster
