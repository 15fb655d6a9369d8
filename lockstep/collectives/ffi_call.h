#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "lockstep/base/dtype.h"

struct XLA_FFI_CallFrame;
struct XLA_FFI_Error;

/// What handlers of XLA's custom calls share.
namespace lockstep::collectives {

/// What a handler must do: answers the question for its version that XLA asks at registration, else calls
/// `execute` and gives XLA the text of what it throws.
XLA_FFI_Error* handle_ffi_call(XLA_FFI_CallFrame& frame, void (*execute)(const XLA_FFI_CallFrame&));

/// A 64-bit attribute, and one that is text. Throw Error where the call lacks it.
std::int64_t ffi_number(const XLA_FFI_CallFrame& frame, std::string_view name);
std::string_view ffi_text(const XLA_FFI_CallFrame& frame, std::string_view name);

/// The dtype of an `XLA_FFI_DataType`; none of one that Lockstep has not.
std::optional<DType> dtype_of_ffi(int type);

}  // namespace lockstep::collectives
