// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/pjrt/plugin.h"
#include "lockstep/testing/processes.h"

namespace lockstep::test {

/// The variables of processes whose devices are GPUs to Lockstep: of a plugin that looks like CUDA's and
/// computes on the CPU. A process has two of them.
inline testing::Variables on_gpus() {
  return {{"GPU_ON_CPU_BEHIND", pjrt::find_plugin()},
          {"LOCKSTEP_PJRT_PLUGIN", GPU_ON_CPU_PLUGIN},
          {"LD_LIBRARY_PATH", CUDA_ON_CPU_FOLDER},
          {"NPROC", "4"}};
}

}  // namespace lockstep::test
