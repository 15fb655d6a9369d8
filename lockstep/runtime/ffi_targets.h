#pragma once

#include <string>

struct XLA_FFI_CallFrame;
struct XLA_FFI_Error;

namespace lockstep::pjrt {
class Plugin;
}

namespace lockstep::runtime {

/// Makes a user's handler known to XLA's CPU compiler under this name: at once, or when the devices are
/// opened. Throws Error where another handler has it.
void register_ffi_target(const std::string& name, XLA_FFI_Error* (*handler)(XLA_FFI_CallFrame*));

/// Throws Error unless there is one of this name.
void check_ffi_target(const std::string& name);

/// Registers what was registered before.
void open_ffi_targets(pjrt::Plugin& plugin);

/// An error with this text, for XLA.
XLA_FFI_Error* ffi_error(XLA_FFI_CallFrame* frame, const char* text);

}  // namespace lockstep::runtime
