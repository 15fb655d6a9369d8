// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/fail.h"
#include "lockstep/collectives/ffi_call.h"
#include "lockstep/sorting/sorting.h"
#include "xla/ffi/api/c_api.h"

namespace lockstep::sorting {
namespace {

void execute(const XLA_FFI_CallFrame& frame) {
  Sort s{.dimension = collectives::ffi_number(frame, "dimension"),
         .num_keys = collectives::ffi_number(frame, "num_keys"),
         .descending = collectives::ffi_number(frame, "descending") != 0};
  for (std::int64_t i = 0; i < frame.args.size; ++i) {
    const auto& operand = *static_cast<const XLA_FFI_Buffer*>(frame.args.args[i]);
    const auto& result = *static_cast<const XLA_FFI_Buffer*>(frame.rets.rets[i]);
    const std::optional<DType> dtype = collectives::dtype_of_ffi(operand.dtype);
    if (!dtype)
      fail_internally("[sort] an operand has XLA's type {}, which Lockstep does not have",
                      static_cast<int>(operand.dtype));
    s.shape.assign(operand.dims, operand.dims + operand.rank);
    s.count = result.dims[s.dimension];
    s.dtypes.push_back(*dtype);
    s.operands.push_back(operand.data);
    s.results.push_back(result.data);
  }
  sort(s, collectives::for_each_of(frame));
}

XLA_FFI_Error* handler(XLA_FFI_CallFrame* frame) { return collectives::handle_ffi_call(*frame, execute); }

}  // namespace

void* sort_handler() { return reinterpret_cast<void*>(&handler); }

}  // namespace lockstep::sorting
