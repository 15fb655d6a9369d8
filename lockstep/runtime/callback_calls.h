// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep::runtime {

/// The handler of the custom calls of callbacks (kCallbackTarget in lockstep/program/primitives/callback.h),
/// an `XLA_FFI_Handler*` for pjrt::Plugin::register_ffi_handler. If a callback throws, the program fails; the
/// exception itself is returned by take_failed_check (debug_calls.h).
void* callback_handler();

}  // namespace lockstep::runtime
