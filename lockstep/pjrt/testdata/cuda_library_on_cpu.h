// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/pjrt/testdata/gpu_on_cpu_calls.h"

/// What the libraries in the places of cuSOLVER and cuBLAS share. OpenBLAS computes.
namespace cuda_library_on_cpu {

constexpr int kSuccess = 0, kInvalidValue = 3, kInternalError = 7;

template <class T>
T* memory(T* device) {
  return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(device) & ~gpu_on_cpu::kDeviceMemory);
}

template <class... T>
bool are_on_gpu(const T*... addresses) {
  return (((reinterpret_cast<std::uintptr_t>(addresses) & gpu_on_cpu::kDeviceMemory) != 0) && ...);
}

struct Handle {
  void* stream = nullptr;
};

inline bool is_ready(void* handle) {
  return handle != nullptr && static_cast<Handle*>(handle)->stream == reinterpret_cast<void*>(0x57);
}

template <class T, class... Arguments>
int lapack(const char* name, Arguments... arguments) {
  static void* const library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  const std::string symbol = std::string(sizeof(T) == 4 ? "s" : "d") + name + "_";
  void* const function = library == nullptr ? nullptr : dlsym(library, symbol.c_str());
  if (function == nullptr) return kInternalError;
  reinterpret_cast<void (*)(Arguments...)>(function)(arguments...);
  return kSuccess;
}

/// Calls a routine that takes memory to work in, its length, and then what else.
template <class T, class Call>
int with_work(const Call& call) {
  T length = 0;
  int query = -1;
  if (const int error = call(&length, &query)) return error;
  std::vector<T> work(static_cast<std::size_t>(length) + 1024);
  int size = static_cast<int>(work.size());
  return call(work.data(), &size);
}

inline int create(void** handle) {
  *handle = new Handle;
  return kSuccess;
}
inline int set_stream(void* handle, void* stream) {
  static_cast<Handle*>(handle)->stream = stream;
  return kSuccess;
}

}  // namespace cuda_library_on_cpu
