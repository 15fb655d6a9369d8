// SPDX-License-Identifier: Apache-2.0
#pragma once

// For tests: CUDA programs that are compiled ahead of time. They need no GPU, but the CUDA plugin
// (scripts/setup --cuda) and the assembler of the CUDA toolkit, which the plugin runs.

#include <filesystem>
#include <memory>
#include <sstream>
#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/pjrt/plugin.h"
#include "lockstep/pjrt/topology.h"

namespace lockstep::pjrt {

/// Why nothing can be compiled for CUDA here; empty if it can.
inline std::string no_cuda_compiler() {
  if (first_plugin(default_plugin_paths("cuda")).empty())
    return "the CUDA plugin was not fetched: scripts/setup --cuda";
  std::istringstream path(Environment::process().get("PATH").value_or("") + ":/usr/local/cuda/bin");
  std::error_code error;
  for (std::string folder; std::getline(path, folder, ':');)
    if (std::filesystem::exists(folder + "/ptxas", error)) return "";
  return "there is no ptxas of the CUDA toolkit in PATH or /usr/local/cuda/bin";
}

/// A topology of H100s with this number of processes, and of devices in each.
inline std::unique_ptr<Topology> h100s(int processes, int devices_each) {
  const std::string config = R"(
      platform_name: "CUDA"
      device_description_str: "NVIDIA H100 80GB HBM3"
      dnn_version_info { major: 9 minor: 10 patch: 0 }
      gpu_device_info {
        cuda_compute_capability { major: 9 }
        core_count: 132 fpus_per_core: 128 clock_rate_ghz: 1.98
        threads_per_warp: 32 threads_per_block_limit: 1024 threads_per_core_limit: 2048
        registers_per_core_limit: 65536 registers_per_block_limit: 65536
        shared_memory_per_core: 233472 shared_memory_per_block: 49152 shared_memory_per_block_optin: 232448
        block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
        device_memory_size: 84942979072 l2_cache_size: 52428800 memory_bandwidth: 3352320000000
      })";
  return Topology::create(
      Plugin::load(first_plugin(default_plugin_paths("cuda"))), "h100",
      {{"target_config", config},
       {"topology", "1x" + std::to_string(processes) + "x" + std::to_string(devices_each)}});
}

/// Compiles for replicas on all devices of the topology.
inline CompileOptions on_all(const Topology& topology) {
  CompileOptions options;
  for (const auto& device : topology.devices()) options.devices.push_back(device.id);
  return options;
}

}  // namespace lockstep::pjrt
