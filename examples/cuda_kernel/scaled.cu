// SPDX-License-Identifier: Apache-2.0
// A kernel of CUDA, and its handler for XLA. nvcc compiles this file:
//
//   nvcc -std=c++17 -I . -isystem third_party/xla/include -c examples/cuda_kernel/scaled.cu
#include "examples/cuda_kernel/scaled.h"

#include <cuda_runtime.h>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

__global__ void scale(float by, const float* x, float* y, std::size_t count) {
  const std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
  if (i < count) y[i] = by * x[i];
}

ffi::Error scaled(cudaStream_t stream, float by, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  constexpr unsigned kThreads = 256;
  const std::size_t count = x.element_count();
  if (count == 0) return ffi::Error::Success();
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  // It is begun on the program's stream, and not waited for.
  scale<<<blocks, kThreads, 0, stream>>>(by, x.typed_data(), y->typed_data(), count);
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? ffi::Error::Success() : ffi::Error::Internal(cudaGetErrorString(error));
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(scaled_on_gpu, scaled,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Attr<float>("by")
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());
