#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "lockstep/base/dtype.h"

struct XLA_FFI_CallFrame;
struct XLA_FFI_Error;

/// Shared by the handlers of XLA's custom calls.
namespace lockstep::collectives {

/// The implementation of a handler: answers XLA's query for its version at registration; otherwise calls
/// `execute`, and passes the text of an exception to XLA.
XLA_FFI_Error* handle_ffi_call(XLA_FFI_CallFrame& frame, void (*execute)(const XLA_FFI_CallFrame&));

/// A 64-bit attribute, and a text attribute. Throw Error if the call does not have it.
std::int64_t ffi_number(const XLA_FFI_CallFrame& frame, std::string_view name);
std::string_view ffi_text(const XLA_FFI_CallFrame& frame, std::string_view name);

/// The dtype of an `XLA_FFI_DataType`; nullopt if Lockstep has none.
std::optional<DType> dtype_of_ffi(int type);

}  // namespace lockstep::collectives
