// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

#include "lockstep/base/fingerprint.h"

namespace lockstep::runtime {

/// The handler of the custom calls of debug::print and debug::check_finite (kDebugTarget in
/// lockstep/program/primitives/ debug.h), an `XLA_FFI_Handler*` for pjrt::Plugin::register_ffi_handler. It
/// writes a line to standard output; in a job of several processes with the process in front, unless the
/// launcher adds that. If a check fails, the program fails.
void* debug_handler();

/// The prefix of each line: the process, in a job of several whose launcher does not print it.
void set_debug_prefix(std::string prefix);

struct FailedCheck {
  std::exception_ptr cause;  ///< null if none has failed
  bool everywhere = false;   ///< on all devices in the same way, because all have the same values
};

/// Stores why a host call of the program failed on this device, until take_failed_check is called.
void note_failed_call(Fingerprint program, int position, std::exception_ptr cause, bool everywhere);

/// The failed check of the last program on this device since the last call. It is needed because XLA only
/// passes on an error's text.
FailedCheck take_failed_check(Fingerprint program, int position);

}  // namespace lockstep::runtime
