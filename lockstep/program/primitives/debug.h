#pragma once

#include "lockstep/program/primitives/apply.h"

namespace lockstep {

/// Hands its operands to the host when the program runs, in program order: to be printed, or looked through
/// for what is not finite. Gives nothing.
const Primitive& debug_p();

struct DebugParams {
  static constexpr std::array<std::string_view, 3> kFields = {"text", "check", "once"};
  std::string text;   ///< a format with "{}" for each operand; of a check the operand's name
  bool check;         ///< an operand that is not finite fails the program
  bool once = false;  ///< all devices have the same: the first of the mesh prints
};

/// The target of the custom call:
///   operand 0   the device's position, a scalar s32; then the operands
///   attributes  program, s64: the program's fingerprint; text, string; check, once: s64, 0 or 1;
///               site, string: the user's line
inline constexpr std::string_view kDebugTarget = "lockstep_debug";

/// Throws ShapeError unless the format has as many "{}" as there are operands.
void check_debug_format(const std::string& format, std::size_t operands);

}  // namespace lockstep
