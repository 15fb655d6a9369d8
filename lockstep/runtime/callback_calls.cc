// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/callback_calls.h"

#include <cstring>
#include <string>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/collectives/ffi_call.h"
#include "lockstep/program/primitives/callback.h"
#include "lockstep/runtime/debug_calls.h"
#include "xla/ffi/api/c_api.h"

namespace lockstep::runtime {
namespace {

using collectives::ffi_number;
using collectives::ffi_text;
using Buffers = std::vector<ir::HostBuffer>;

ir::HostBuffer buffer_of(const XLA_FFI_Buffer& buffer) {
  const std::optional<DType> dtype = collectives::dtype_of_ffi(buffer.dtype);
  if (!dtype) fail("a callback gets an array of a dtype that Lockstep does not have");
  return {*dtype, Shape(buffer.dims, buffer.dims + buffer.rank), buffer.data};
}

std::size_t bytes_of(const ir::HostBuffer& buffer) {
  return static_cast<std::size_t>(num_elements(buffer.shape)) * size_of(buffer.dtype);
}

/// The i-th along the leading dimension.
ir::HostBuffer element(ir::HostBuffer buffer, std::int64_t i) {
  buffer.shape.erase(buffer.shape.begin());
  if (buffer.data != nullptr)
    buffer.data = static_cast<char*>(buffer.data) + static_cast<std::size_t>(i) * bytes_of(buffer);
  return buffer;
}

/// Calls for each example; `levels` are the leading dimensions that are left.
void call(const ir::HostFunction& function, std::span<const std::vector<int>> levels, const Buffers& operands,
          const Buffers& results) {
  if (levels.empty()) return function(operands, results);
  for (int i = 0; i < levels[0][0]; ++i) {
    Buffers own_operands, own_results;
    for (std::size_t k = 0; k < operands.size(); ++k)
      own_operands.push_back(levels[0].at(k + 1) != 0 ? element(operands[k], i) : operands[k]);
    for (const ir::HostBuffer& result : results) own_results.push_back(element(result, i));
    call(function, levels.subspan(1), own_operands, own_results);
  }
}

void execute(const XLA_FFI_CallFrame& frame) {
  Buffers operands, results;
  std::int32_t position = 0;
  for (std::int64_t i = 0; i < frame.args.size; ++i) {
    const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(frame.args.args[i]);
    if (i == 0)
      std::memcpy(&position, buffer.data, sizeof position);
    else if (buffer.dtype != XLA_FFI_DataType_TOKEN)
      operands.push_back(buffer_of(buffer));
  }
  for (std::int64_t i = 0; i < frame.rets.size; ++i) {
    const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(frame.rets.rets[i]);
    if (buffer.dtype != XLA_FFI_DataType_TOKEN) results.push_back(buffer_of(buffer));
  }
  if (ffi_number(frame, "once") != 0 && position != 0) {
    for (const ir::HostBuffer& result : results)
      if (bytes_of(result) != 0) std::memset(result.data, 0, bytes_of(result));
    return;
  }
  try {
    const std::string name(ffi_text(frame, "function"));
    const std::shared_ptr<const ir::HostFunction> function = ir::NamedHostFunction::find(name);
    if (function == nullptr) fail("a compiled program calls the callback {}, which no longer exists", name);
    call(*function, ir::examples_of(ffi_text(frame, "examples")), operands, results);
  } catch (...) {
    note_failed_call(static_cast<Fingerprint>(ffi_number(frame, "program")), position,
                     std::current_exception(),
                     /*everywhere=*/false);
    throw;
  }
}

XLA_FFI_Error* handler(XLA_FFI_CallFrame* frame) { return collectives::handle_ffi_call(*frame, execute); }

}  // namespace

void* callback_handler() { return reinterpret_cast<void*>(&handler); }

}  // namespace lockstep::runtime
