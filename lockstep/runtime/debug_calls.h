#pragma once

#include <exception>
#include <string>

#include "lockstep/base/fingerprint.h"

namespace lockstep::runtime {

/// The handler of the custom calls that debug::print and debug::check_finite become (kDebugTarget in
/// lockstep/program/primitives/debug.h), an `XLA_FFI_Handler*` for pjrt::Plugin::register_ffi_handler. It
/// writes a line to standard output, with the process in front in a job of several whose launcher does not
/// put it there. A check that fails fails the program.
void* debug_handler();

/// What stands in front of each line: the process, in a job of several whose launcher does not say it.
void set_debug_prefix(std::string prefix);

struct FailedCheck {
  std::exception_ptr cause;  ///< null where none has failed
  bool everywhere = false;   ///< on all devices alike, as all have the same
};

/// Keeps why a host call of the program failed on this device, until take_failed_check asks.
void note_failed_call(Fingerprint program, int position, std::exception_ptr cause, bool everywhere);

/// The check of the program that failed last for this device since it was asked last: XLA hands on only the
/// text.
FailedCheck take_failed_check(Fingerprint program, int position);

}  // namespace lockstep::runtime
