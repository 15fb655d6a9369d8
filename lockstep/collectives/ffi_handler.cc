// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/ffi_handler.h"

#include <cstring>

#include "lockstep/base/fail.h"
#include "lockstep/collectives/ffi_call.h"
#include "lockstep/collectives/registry.h"
#include "xla/ffi/api/c_api.h"

namespace lockstep::collectives {

namespace {

Operand operand_of(const XLA_FFI_Buffer& buffer) {
  Operand operand;
  operand.data = buffer.data;
  operand.dtype = dtype_of_ffi(buffer.dtype);
  std::size_t elements = buffer.dtype == XLA_FFI_DataType_TOKEN ? 0 : 1;
  for (std::int64_t i = 0; i < buffer.rank; ++i) elements *= static_cast<std::size_t>(buffer.dims[i]);
  if (operand.dtype) operand.bytes = elements * size_of(*operand.dtype);
  return operand;
}

const XLA_FFI_Buffer& argument(const XLA_FFI_CallFrame& frame, std::int64_t index) {
  return *static_cast<const XLA_FFI_Buffer*>(frame.args.args[index]);
}

/// One call, as the compiled program makes it.
struct Called {
  ProgramRegistry& registry;
  Fingerprint program;
  std::int64_t index;
  std::int32_t position;
  Operand in, out;
};

Called called(const XLA_FFI_CallFrame& frame) {
  ProgramRegistry* registry = ProgramRegistry::current();
  if (registry == nullptr) {
    fail("a compiled program does a collective, but Lockstep is not initialized in this process");
  }
  if (frame.args.size < 1 || argument(frame, 0).dtype != XLA_FFI_DataType_S32 ||
      argument(frame, 0).rank != 0) {
    fail("a custom call {} needs its device's position as operand 0, a scalar s32", kCollectiveTarget);
  }
  std::int32_t position;
  std::memcpy(&position, argument(frame, 0).data, sizeof position);
  const Operand in = frame.args.size > 1 ? operand_of(argument(frame, 1)) : Operand{};
  Operand out;
  for (std::int64_t i = 0; i < frame.rets.size; ++i) {
    const Operand result = operand_of(*static_cast<const XLA_FFI_Buffer*>(frame.rets.rets[i]));
    if (i == 0) {
      out = result;
    } else if (result.bytes != 0) {
      std::memset(const_cast<void*>(result.data), 0, result.bytes);
    }
  }
  return {*registry,
          static_cast<Fingerprint>(ffi_number(frame, "program")),
          ffi_number(frame, "call"),
          position,
          in,
          out};
}

void run(const XLA_FFI_CallFrame& frame) {
  const Called c = called(frame);
  c.registry.run(c.program, c.index, c.position, c.in, c.out);
}

void start(const XLA_FFI_CallFrame& frame) {
  const Called c = called(frame);
  c.registry.start(c.program, c.index, c.position, c.in, c.out);
}

void finish(const XLA_FFI_CallFrame& frame) {
  const Called c = called(frame);
  if (c.in.data != c.out.data && c.in.bytes != 0) {
    fail_internally("the result of the custom call {} is not in the memory of its operand",
                    kCollectiveDoneTarget);
  }
  c.registry.finish(c.program, c.index, c.position);
}

template <void (*execute)(const XLA_FFI_CallFrame&)>
void* handler() {
  return reinterpret_cast<void*>(
      +[](XLA_FFI_CallFrame* frame) -> XLA_FFI_Error* { return handle_ffi_call(*frame, execute); });
}

}  // namespace

std::array<FfiHandler, 3> collective_handlers() {
  return {{{kCollectiveTarget, handler<run>()},
           {kCollectiveStartTarget, handler<start>()},
           {kCollectiveDoneTarget, handler<finish>()}}};
}

}  // namespace lockstep::collectives
