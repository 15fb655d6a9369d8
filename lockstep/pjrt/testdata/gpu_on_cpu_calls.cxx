// SPDX-License-Identifier: Apache-2.0
#include "gpu_on_cpu_calls.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "xla/ffi/api/c_api.h"

namespace gpu_on_cpu {
namespace {

using Handler = XLA_FFI_Error* (*)(XLA_FFI_CallFrame*);

constexpr std::size_t kMost = 256;
std::array<Handler, kMost> handlers;
std::size_t handlers_count = 0;
std::mutex handlers_mutex;

void* on_gpu(void* address) {
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(address) | kDeviceMemory);
}

/// The driver's library knows this stream.
XLA_FFI_Error* get_stream(XLA_FFI_Stream_Get_Args* args) {
  args->stream = reinterpret_cast<void*>(0x57);
  return nullptr;
}

XLA_FFI_Error* allocate(XLA_FFI_DeviceMemory_Allocate_Args* args) {
  args->data = on_gpu(std::aligned_alloc(64, (args->size + 63) / 64 * 64));
  return nullptr;
}

XLA_FFI_Error* free_memory(XLA_FFI_DeviceMemory_Free_Args* args) {
  std::free(reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(args->data) & ~kDeviceMemory));
  return nullptr;
}

XLA_FFI_Error* call(Handler handler, XLA_FFI_CallFrame* frame) {
  if (frame->extension_start != nullptr) return handler(frame);  // asks for the version
  XLA_FFI_Api api{};
  std::memcpy(&api, frame->api, std::min(sizeof api, frame->api->struct_size));
  api.XLA_FFI_Stream_Get = get_stream;
  api.XLA_FFI_DeviceMemory_Allocate = allocate;
  api.XLA_FFI_DeviceMemory_Free = free_memory;
  std::vector<XLA_FFI_Buffer> buffers;
  const auto copy = [&](void* const* values, std::int64_t size) {
    for (std::int64_t i = 0; i < size; ++i) {
      buffers.push_back(*static_cast<const XLA_FFI_Buffer*>(values[i]));
      buffers.back().data = on_gpu(buffers.back().data);
    }
  };
  copy(frame->args.args, frame->args.size);
  copy(frame->rets.rets, frame->rets.size);
  std::vector<void*> pointers;
  for (XLA_FFI_Buffer& buffer : buffers) pointers.push_back(&buffer);
  XLA_FFI_CallFrame given = *frame;
  given.api = &api;
  given.args.args = pointers.data();
  given.rets.rets = pointers.data() + frame->args.size;
  return handler(&given);
}

template <std::size_t kNumber>
XLA_FFI_Error* call_number(XLA_FFI_CallFrame* frame) {
  return call(handlers[kNumber], frame);
}

template <std::size_t... kNumbers>
constexpr std::array<Handler, kMost> calls_of(std::index_sequence<kNumbers...>) {
  return {call_number<kNumbers>...};
}

}  // namespace

void* on_device(void* handler) {
  static constexpr std::array<Handler, kMost> kCalls = calls_of(std::make_index_sequence<kMost>());
  std::lock_guard lock(handlers_mutex);
  if (handlers_count == kMost) std::abort();
  handlers[handlers_count] = reinterpret_cast<Handler>(handler);
  return reinterpret_cast<void*>(kCalls[handlers_count++]);
}

}  // namespace gpu_on_cpu
