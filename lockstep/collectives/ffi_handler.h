#pragma once

#include <string_view>

namespace lockstep::collectives {

/// The target of the custom calls by which a compiled program calls its collectives:
///   operand 0   position, a scalar s32: the device's position in the program's mesh
///   operand 1   the data; absent for a barrier
///   result 0    the data; absent or a token for a barrier
///   attributes  program, s64: the program's fingerprint, bit for bit; call, s64: the index of the collective
/// Further operands and results only order the calls: the operands are ignored, and the results are filled
/// with zeros.
inline constexpr std::string_view kCollectiveTarget = "lockstep_collective";

/// The handler, an `XLA_FFI_Handler*`, for pjrt::Plugin::register_ffi_handler. It calls
/// ProgramRegistry::current(). If that throws, or there is no registry, the execution fails with the error's
/// text.
void* collective_handler();

}  // namespace lockstep::collectives
