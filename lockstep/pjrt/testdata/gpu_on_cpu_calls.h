// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Custom calls of the plugin that looks like CUDA's, and what CUDA's driver knows of its devices.
namespace gpu_on_cpu {

/// Addresses in the devices' memory are no addresses for the host, which would crash there.
constexpr std::uintptr_t kDeviceMemory = std::uintptr_t{1} << 62;

/// A handler of the CPU plugin that calls one for CUDA: with the devices' addresses, a stream, and memory of
/// the device.
void* on_device(void* handler);

}  // namespace gpu_on_cpu
