#pragma once

#include <string_view>

namespace lockstep::collectives {

/// The target of the custom calls by which a compiled program does its collectives:
///   operand 0   position, a scalar s32: the device's position in the program's mesh
///   operand 1   the data; absent for a barrier
///   result 0    the data; absent or a token for a barrier
///   attributes  program, s64: the program's fingerprint, bit for bit; call, s64: the index of the collective
/// Further operands and results only chain the calls: operands are not looked at, results are filled with
/// zeros.
inline constexpr std::string_view kCollectiveTarget = "lockstep_collective";

/// The handler, an `XLA_FFI_Handler*`, for pjrt::Plugin::register_ffi_handler. It asks
/// ProgramRegistry::current(), and fails the execution with the error's text where that throws, or where
/// there is no registry.
void* collective_handler();

}  // namespace lockstep::collectives
