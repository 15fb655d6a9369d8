// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/primitives/apply.h"

namespace lockstep::ir {

/// Passes its operands to the host when the program runs, in program order, to print them or to check that
/// they are finite. Has no results.
const Primitive& debug_p();

struct DebugParams {
  static constexpr std::array<std::string_view, 3> kFields = {"text", "check", "once"};
  std::string text;   ///< a format with "{}" for each operand; for a check the operand's name
  bool check;         ///< fail the program if an operand is not finite
  bool once = false;  ///< all devices have the same values: only the mesh's first device prints
};

/// The target of the custom call:
///   operand 0   the device's position, a scalar s32; then the operands
///   attributes  program, s64: the program's fingerprint; text, string; check, once: s64, 0 or 1;
///               site, string: the user's line
inline constexpr std::string_view kDebugTarget = "lockstep_debug";

/// Throws ShapeError unless the format has as many "{}" as there are operands.
void check_debug_format(const std::string& format, std::size_t operands);

}  // namespace lockstep::ir
