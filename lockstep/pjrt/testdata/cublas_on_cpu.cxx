// SPDX-License-Identifier: Apache-2.0
// The functions of cuBLAS that Lockstep calls, in the same way as cusolver_on_cpu.cxx.
#include "lockstep/pjrt/testdata/cuda_library_on_cpu.h"

namespace {

using namespace cuda_library_on_cpu;

template <class T>
int getrf(void* handle, int n, T* const* a, int lda, int* pivots, int* info, int count) {
  if (!is_ready(handle) || !are_on_gpu(a, pivots, info) || lda != n || count < 2) return kInvalidValue;
  for (int i = 0; i < count; ++i) {
    T* const matrix = memory(a)[i];
    if (!are_on_gpu(matrix)) return kInvalidValue;
    const int error = lapack<T>("getrf", &n, &n, memory(matrix), &lda, memory(pivots) + i * n, memory(info) + i);
    if (error != kSuccess) return error;
  }
  return kSuccess;
}

template <class T>
int geqrf(void* handle, int m, int n, T* const* a, int lda, T* const* taus, int* info, int count) {
  if (!is_ready(handle) || !are_on_gpu(a, taus) || are_on_gpu(info) || lda != m || count < 2) return kInvalidValue;
  for (int i = 0; i < count; ++i) {
    T *const matrix = memory(a)[i], *const vector = memory(taus)[i];
    if (!are_on_gpu(matrix, vector)) return kInvalidValue;
    const int error = with_work<T>([&](T* own, int* size) {
      return lapack<T>("geqrf", &m, &n, memory(matrix), &lda, memory(vector), own, size, info);
    });
    if (error != kSuccess) return error;
  }
  return kSuccess;
}

}  // namespace

extern "C" {

/// For tests: how many calls decomposed matrices.
int calls_of_cublas_on_cpu = 0;

int cublasCreate_v2(void** handle) { return create(handle); }
int cublasSetStream_v2(void* handle, void* stream) { return set_stream(handle, stream); }
int cublasSgetrfBatched(void* handle, int n, float* const* a, int lda, int* pivots, int* info, int count) {
  ++calls_of_cublas_on_cpu;
  return getrf(handle, n, a, lda, pivots, info, count);
}
int cublasDgetrfBatched(void* handle, int n, double* const* a, int lda, int* pivots, int* info, int count) {
  ++calls_of_cublas_on_cpu;
  return getrf(handle, n, a, lda, pivots, info, count);
}
int cublasSgeqrfBatched(void* handle, int m, int n, float* const* a, int lda, float* const* taus, int* info, int count) {
  ++calls_of_cublas_on_cpu;
  return geqrf(handle, m, n, a, lda, taus, info, count);
}
int cublasDgeqrfBatched(void* handle, int m, int n, double* const* a, int lda, double* const* taus, int* info,
                        int count) {
  ++calls_of_cublas_on_cpu;
  return geqrf(handle, m, n, a, lda, taus, info, count);
}

}  // extern "C"
