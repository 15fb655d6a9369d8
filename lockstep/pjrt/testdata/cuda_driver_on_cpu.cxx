// SPDX-License-Identifier: Apache-2.0
// The functions of CUDA's driver that Lockstep calls, for the devices of the plugin that looks like CUDA's. Their work
// is done when it is given, and what is wrong with it is an error, as cuda.h numbers it.
#include <cstdint>
#include <cstring>

#include "gpu_on_cpu_calls.h"

namespace {

constexpr int kSuccess = 0, kInvalidValue = 1, kInvalidContext = 201, kInvalidHandle = 400;
constexpr std::uintptr_t kStream = 0x57, kContext = 0xC0;
thread_local int pushed = 0;

int check(const void* stream, std::uintptr_t device) {
  if (reinterpret_cast<std::uintptr_t>(stream) != kStream) return kInvalidHandle;
  if (pushed == 0) return kInvalidContext;
  return (device & gpu_on_cpu::kDeviceMemory) != 0 ? kSuccess : kInvalidValue;
}

void* memory(std::uintptr_t device) { return reinterpret_cast<void*>(device & ~gpu_on_cpu::kDeviceMemory); }

}  // namespace

extern "C" {

int cuStreamGetCtx(void* stream, void** context) {
  if (reinterpret_cast<std::uintptr_t>(stream) != kStream) return kInvalidHandle;
  *context = reinterpret_cast<void*>(kContext);
  return kSuccess;
}

int cuCtxPushCurrent_v2(void* context) {
  if (reinterpret_cast<std::uintptr_t>(context) != kContext) return kInvalidContext;
  ++pushed;
  return kSuccess;
}

int cuCtxPopCurrent_v2(void** context) {
  if (pushed == 0) return kInvalidContext;
  --pushed;
  *context = reinterpret_cast<void*>(kContext);
  return kSuccess;
}

int cuMemcpyDtoHAsync_v2(void* host, unsigned long long device, std::size_t bytes, void* stream) {
  if (const int error = check(stream, device)) return error;
  std::memcpy(host, memory(device), bytes);
  return kSuccess;
}

int cuMemcpyHtoDAsync_v2(unsigned long long device, const void* host, std::size_t bytes, void* stream) {
  if (const int error = check(stream, device)) return error;
  std::memcpy(memory(device), host, bytes);
  return kSuccess;
}

int cuStreamSynchronize(void* stream) { return check(stream, gpu_on_cpu::kDeviceMemory); }

int cuGetErrorString(int error, const char** text) {
  *text = error == kInvalidValue     ? "invalid argument"
          : error == kInvalidContext ? "invalid device context"
                                     : "invalid resource handle";
  return kSuccess;
}

}  // extern "C"
