// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cuda/host_call.h"

#include <cstddef>
#include <exception>
#include <memory>
#include <vector>

#include "lockstep/base/dtype.h"
#include "lockstep/base/fail.h"
#include "lockstep/collectives/ffi_call.h"
#include "lockstep/cuda/stream.h"
#include "xla/ffi/api/c_api.h"

namespace lockstep::cuda {
namespace {

/// Operands or results, with copies in host memory.
class Copies {
 public:
  /// `values` are the frame's `XLA_FFI_Buffer`s.
  Copies(void* const* values, std::int64_t size) {
    for (std::int64_t i = 0; i < size; ++i) {
      const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(values[i]);
      device_.push_back(buffer.data);
      bytes_.push_back(bytes_of(buffer));
      memory_.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes_.back()));
      buffers_.push_back(buffer);
      buffers_.back().data = memory_.back().get();
    }
    for (XLA_FFI_Buffer& buffer : buffers_) pointers_.push_back(&buffer);
  }

  void take(const Stream& stream) const {
    for (std::size_t i = 0; i < memory_.size(); ++i) stream.to_host(memory_[i].get(), device_[i], bytes_[i]);
  }
  void give(const Stream& stream) const {
    for (std::size_t i = 0; i < memory_.size(); ++i)
      stream.to_device(device_[i], memory_[i].get(), bytes_[i]);
  }
  void** pointers() { return pointers_.data(); }

 private:
  static std::size_t bytes_of(const XLA_FFI_Buffer& buffer) {
    if (buffer.dtype == XLA_FFI_DataType_TOKEN) return 0;
    const std::optional<DType> dtype = collectives::dtype_of_ffi(buffer.dtype);
    if (!dtype) fail("a program calls the host with an array of a dtype that Lockstep does not have");
    return static_cast<std::size_t>(collectives::ffi_elements(buffer)) * size_of(*dtype);
  }

  std::vector<void*> device_;
  std::vector<std::size_t> bytes_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  std::vector<XLA_FFI_Buffer> buffers_;
  std::vector<void*> pointers_;
};

}  // namespace

XLA_FFI_Error* call_on_host(XLA_FFI_CallFrame* frame, Handler handler) {
  XLA_FFI_Error* refused = nullptr;
  const auto call = [&](const XLA_FFI_CallFrame& given) {
    const Stream stream(given);
    Copies operands(given.args.args, given.args.size), results(given.rets.rets, given.rets.size);
    operands.take(stream);
    stream.await();
    XLA_FFI_CallFrame on_host = given;
    on_host.args.args = operands.pointers();
    on_host.rets.rets = results.pointers();
    refused = handler(&on_host);
    if (refused != nullptr) return;
    results.give(stream);
    stream.await();
  };
  XLA_FFI_Error* const error = collectives::handle_ffi_call(*frame, call);
  return refused != nullptr ? refused : error;
}

}  // namespace lockstep::cuda
