// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "lockstep/base/dtype.h"

struct XLA_FFI_Buffer;
struct XLA_FFI_CallFrame;
struct XLA_FFI_Error;

/// Shared by the handlers of XLA's custom calls.
namespace lockstep::collectives {

/// The implementation of a handler: answers XLA's query for its version at registration; otherwise calls
/// `execute`, and passes the text of an exception to XLA.
XLA_FFI_Error* handle_ffi_call(XLA_FFI_CallFrame& frame,
                               const std::function<void(const XLA_FFI_CallFrame&)>& execute);

/// Whether a function of XLA's interface has returned no error. An error is destroyed.
bool ffi_succeeded(const XLA_FFI_CallFrame& frame, XLA_FFI_Error* error);

/// A 64-bit attribute, and a text attribute. These three throw Error if the call does not have it.
std::int64_t ffi_number(const XLA_FFI_CallFrame& frame, std::string_view name);
std::string_view ffi_text(const XLA_FFI_CallFrame& frame, std::string_view name);

/// An attribute that is an array of s64.
std::vector<std::int64_t> ffi_numbers(const XLA_FFI_CallFrame& frame, std::string_view name);

/// Calls piece(0), ..., piece(count - 1), each once, in any order, on this thread and on those of XLA's
/// threads that are free meanwhile. Returns when all have ended; throws the first exception of one of them.
void ffi_for_each(const XLA_FFI_CallFrame& frame, std::int64_t count,
                  const std::function<void(std::int64_t)>& piece);

/// What calls piece(0), ..., piece(count - 1), in any order and on any threads, and returns when all have
/// ended.
using ForEach = std::function<void(std::int64_t count, const std::function<void(std::int64_t)>& piece)>;

/// ffi_for_each of this frame, which must outlive it.
ForEach for_each_of(const XLA_FFI_CallFrame& frame);

/// The number of XLA's threads; 1 if the plugin does not tell it.
std::int64_t ffi_threads(const XLA_FFI_CallFrame& frame);

/// The number of elements of an operand or result.
std::int64_t ffi_elements(const XLA_FFI_Buffer& buffer);

/// The dtype of an `XLA_FFI_DataType`; nullopt if Lockstep has none.
std::optional<DType> dtype_of_ffi(int type);

}  // namespace lockstep::collectives
