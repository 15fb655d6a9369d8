// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cuda/stream.h"

#include <string>

#include "lockstep/base/fail.h"
#include "lockstep/base/find_function.h"
#include "lockstep/collectives/ffi_call.h"
#include "lockstep/cuda/libraries.h"
#include "xla/ffi/api/c_api.h"

namespace lockstep::cuda {

/// The functions of cuda.h, version 13. Streams and contexts are pointers; 0 is success.
struct Driver {
  int (*stream_context)(void* stream, void** context);
  int (*push_context)(void* context);
  int (*pop_context)(void** context);
  int (*to_host)(void* host, unsigned long long device, std::size_t bytes, void* stream);
  int (*to_device)(unsigned long long device, const void* host, std::size_t bytes, void* stream);
  int (*await)(void* stream);
  int (*error_text)(int error, const char** text);
};

namespace {

constexpr const char* kName = "libcuda.so.1";

struct FoundDriver {
  Driver driver{};
  std::string why_not;
};

FoundDriver load_driver() {
  FoundDriver found;
  std::string described;
  void* const library = load_library({kName}, described);
  if (library == nullptr) {
    found.why_not = described;
    return found;
  }
  Driver& driver = found.driver;
  const auto find = [&](auto& function, const char* name) {
    if (!find_function(library, name, function)) found.why_not = fmt::format("{} has no {}", kName, name);
  };
  find(driver.stream_context, "cuStreamGetCtx");
  find(driver.push_context, "cuCtxPushCurrent_v2");
  find(driver.pop_context, "cuCtxPopCurrent_v2");
  find(driver.to_host, "cuMemcpyDtoHAsync_v2");
  find(driver.to_device, "cuMemcpyHtoDAsync_v2");
  find(driver.await, "cuStreamSynchronize");
  find(driver.error_text, "cuGetErrorString");
  return found;
}

const Driver& driver() {
  static const FoundDriver& found = *new FoundDriver(load_driver());
  if (!found.why_not.empty()) fail("CUDA's driver cannot be called: {}", found.why_not);
  return found.driver;
}

void check(const Driver& driver, int error, const char* what) {
  if (error == 0) return;
  const char* text = nullptr;
  driver.error_text(error, &text);
  fail("{} of CUDA's driver failed: error {}, {}", what, error, text == nullptr ? "unknown" : text);
}

void* stream_of(const XLA_FFI_CallFrame& frame) {
  XLA_FFI_Stream_Get_Args args{};
  args.struct_size = XLA_FFI_Stream_Get_Args_STRUCT_SIZE;
  args.ctx = frame.ctx;
  if (!collectives::ffi_succeeded(frame, frame.api->XLA_FFI_Stream_Get(&args)))
    fail("XLA has no CUDA stream for a call from a program on a GPU");
  return args.stream;
}

unsigned long long address(const void* device) { return reinterpret_cast<unsigned long long>(device); }

}  // namespace

InContextOf::InContextOf(const Stream& stream) : driver_(stream.driver_) {
  void* context = nullptr;
  check(driver_, driver_.stream_context(stream.stream_, &context), "cuStreamGetCtx");
  check(driver_, driver_.push_context(context), "cuCtxPushCurrent");
}

InContextOf::~InContextOf() {
  void* context = nullptr;
  driver_.pop_context(&context);
}

Stream::Stream(const XLA_FFI_CallFrame& frame) : driver_(driver()), stream_(stream_of(frame)) {}

void Stream::to_host(void* host, const void* device, std::size_t bytes) const {
  if (bytes == 0) return;
  const InContextOf context(*this);
  check(driver_, driver_.to_host(host, address(device), bytes, stream_), "cuMemcpyDtoHAsync");
}

void Stream::to_device(void* device, const void* host, std::size_t bytes) const {
  if (bytes == 0) return;
  const InContextOf context(*this);
  check(driver_, driver_.to_device(address(device), host, bytes, stream_), "cuMemcpyHtoDAsync");
}

void Stream::await() const {
  const InContextOf context(*this);
  check(driver_, driver_.await(stream_), "cuStreamSynchronize");
}

}  // namespace lockstep::cuda
