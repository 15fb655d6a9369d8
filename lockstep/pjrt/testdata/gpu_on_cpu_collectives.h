// SPDX-License-Identifier: Apache-2.0
// Collectives between processes for the plugin that imitates CUDA's: it plays the role of NCCL.
#pragma once

#include <cstdint>
#include <string>

namespace gpu_on_cpu {

/// The folder that the processes of a job share to exchange data. Empty: none.
void set_folder(const std::string& folder);
std::string folder();

/// The program with each of its collectives as a call of `meet`. To keep the order of launches on a device,
/// main gets one more argument and one more result, a u32 that each run passes to the next one. Throws
/// std::runtime_error for a collective that `meet` does not support.
std::string with_meetings(const std::string& program, std::uint64_t key);

/// Blocks until all of `replicas` have called this for the program, this one in this process. NCCL makes a
/// communicator in this way in the first launch of a program.
void make_communicator(std::uint64_t program, std::size_t replica, std::size_t replicas);

/// The target of the calls, and its handler, an XLA_FFI_Handler*. The handler blocks until all replicas of
/// the group are in the same run of the same call of the same program.
inline constexpr char kTarget[] = "gpu_on_cpu_meet";
void* meet();

}  // namespace gpu_on_cpu
