#pragma once

namespace lockstep::runtime {

/// The handler of the custom calls that callbacks become (kCallbackTarget in
/// lockstep/program/primitives/callback.h), an `XLA_FFI_Handler*` for pjrt::Plugin::register_ffi_handler.
/// What a callback throws fails the program; take_failed_check (debug_calls.h) has the exception itself.
void* callback_handler();

}  // namespace lockstep::runtime
