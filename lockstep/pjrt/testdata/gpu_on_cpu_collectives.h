// Collectives between processes for the plugin that looks like CUDA's: what NCCL is to XLA's.
#pragma once

#include <cstdint>
#include <string>

namespace gpu_on_cpu {

/// Where the processes of a job leave what the others read: a folder of all of them. Empty: there is none.
void set_folder(const std::string& folder);
std::string folder();

/// The program with each of its collectives as a call of `meet`, and what keeps its runs on a device in the
/// order of their launches: main has one more argument and one more result, a u32, which each run hands to
/// the next one. Throws std::runtime_error at a collective that `meet` cannot do.
std::string with_meetings(const std::string& program, std::uint64_t key);

/// Blocks until all of `replicas` have called this for the program, this one in this process: NCCL makes a
/// communicator so, in the first launch of a program.
void make_communicator(std::uint64_t program, std::size_t replica, std::size_t replicas);

/// The handler of the calls, an XLA_FFI_Handler*, and their target. It blocks until all of the replica's
/// group are in the same run of the same call of the same program.
inline constexpr char kTarget[] = "gpu_on_cpu_meet";
void* meet();

}  // namespace gpu_on_cpu
