// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
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

/// The same in two calls, between which the program may compute. The first returns at once. Until the second
/// has returned, operand 1 of the first must not be overwritten, and its result 0 not be used: result 0 of
/// the second is its operand 1, which is result 0 of the first.
inline constexpr std::string_view kCollectiveStartTarget = "lockstep_collective_start";
inline constexpr std::string_view kCollectiveDoneTarget = "lockstep_collective_done";

/// A target and its handler, an `XLA_FFI_Handler*`, for pjrt::Plugin::register_ffi_handler. The handlers call
/// ProgramRegistry::current(). If that throws, or there is no registry, the execution fails with the error's
/// text.
struct FfiHandler {
  std::string_view target;
  void* handler;
};
std::array<FfiHandler, 3> collective_handlers();

}  // namespace lockstep::collectives
