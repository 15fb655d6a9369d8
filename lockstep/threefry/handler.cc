// SPDX-License-Identifier: Apache-2.0
#include "lockstep/threefry/threefry.h"
#include "xla/ffi/api/c_api.h"

namespace lockstep::threefry {
namespace {

void execute(const XLA_FFI_CallFrame& frame) {
  const auto result = [&](int i) -> const XLA_FFI_Buffer& {
    return *static_cast<const XLA_FFI_Buffer*>(frame.rets.rets[i]);
  };
  Operands operands{};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto& operand = *static_cast<const XLA_FFI_Buffer*>(frame.args.args[i]);
    operands[i] = {static_cast<const std::uint32_t*>(operand.data), operand.rank == 0};
  }
  threefry2x32(operands, static_cast<std::uint32_t*>(result(0).data),
               static_cast<std::uint32_t*>(result(1).data), collectives::ffi_elements(result(0)),
               collectives::for_each_of(frame));
}

XLA_FFI_Error* handler(XLA_FFI_CallFrame* frame) { return collectives::handle_ffi_call(*frame, execute); }

}  // namespace

void* threefry_handler() { return reinterpret_cast<void*>(&handler); }

}  // namespace lockstep::threefry
