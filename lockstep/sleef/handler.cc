// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/sleef/sleef.h"
#include "xla/ffi/api/c_api.h"

namespace lockstep::sleef {
namespace {

void execute(const XLA_FFI_CallFrame& frame) {
  if (!is_available()) {
    fail(
        "a compiled program calls SLEEF, which cannot be used here: {}. Install it on every host or on none "
        "(Debian: libsleef3)",
        description());
  }
  const auto& result = *static_cast<const XLA_FFI_Buffer*>(frame.rets.rets[0]);
  std::vector<const void*> operands;
  for (std::int64_t i = 0; i < frame.args.size; ++i)
    operands.push_back(static_cast<const XLA_FFI_Buffer*>(frame.args.args[i])->data);
  compute(collectives::ffi_text(frame, "function"), collectives::dtype_of_ffi(result.dtype).value(), operands,
          result.data, collectives::ffi_elements(result), collectives::for_each_of(frame));
}

XLA_FFI_Error* handler(XLA_FFI_CallFrame* frame) { return collectives::handle_ffi_call(*frame, execute); }

}  // namespace

void* sleef_handler() { return reinterpret_cast<void*>(&handler); }

}  // namespace lockstep::sleef
