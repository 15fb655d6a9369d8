// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

struct XLA_FFI_CallFrame;
struct XLA_FFI_Error;

namespace lockstep::pjrt {
class Plugin;
}

namespace lockstep::runtime {

/// Registers a user's handler under this name with XLA's compiler for a platform, "cpu" or "cuda": at once,
/// or when the devices are opened. Throws Error for another platform, and if another handler has the name.
void register_ffi_target(const std::string& name, const std::string& platform,
                         XLA_FFI_Error* (*handler)(XLA_FFI_CallFrame*));

/// Throws Error if no handler for the platform of the devices has this name.
void check_ffi_target(const std::string& name);

/// Registers the handlers for this platform that were given before the plugin was opened.
void open_ffi_targets(pjrt::Plugin& plugin, const std::string& platform);

/// An error with this text, for XLA.
XLA_FFI_Error* ffi_error(XLA_FFI_CallFrame* frame, const char* text);

}  // namespace lockstep::runtime
