// SPDX-License-Identifier: Apache-2.0
// The functions of cuSOLVER that Lockstep calls, for the devices of the plugin that looks like CUDA's: OpenBLAS
// computes them. An address that is not in a device's memory, a wrong stream and other sizes than those that were asked
// for are errors.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "lockstep/pjrt/testdata/cuda_library_on_cpu.h"

namespace {

using namespace cuda_library_on_cpu;

constexpr int kLength = 17;  // of the memory to work in, which OpenBLAS does not need

template <class T>
int getrf(void* handle, int m, int n, T* a, int lda, T* work, int* pivots, int* info) {
  if (!is_ready(handle) || !are_on_gpu(a, work, pivots, info)) return kInvalidValue;
  return lapack<T>("getrf", &m, &n, memory(a), &lda, memory(pivots), memory(info));
}

template <class T>
int geqrf(void* handle, int m, int n, T* a, int lda, T* tau, T* work, int length, int* info) {
  if (!is_ready(handle) || !are_on_gpu(a, tau, work, info) || length != kLength) return kInvalidValue;
  return with_work<T>([&](T* own, int* size) {
    return lapack<T>("geqrf", &m, &n, memory(a), &lda, memory(tau), own, size, memory(info));
  });
}

template <class T>
int orgqr(void* handle, int m, int n, int k, T* a, int lda, const T* tau, T* work, int length, int* info) {
  if (!is_ready(handle) || !are_on_gpu(a, tau, work, info) || length != kLength) return kInvalidValue;
  return with_work<T>([&](T* own, int* size) {
    return lapack<T>("orgqr", &m, &n, &k, memory(a), &lda, memory(tau), own, size, memory(info));
  });
}

template <class T>
int syevd(void* handle, int jobz, int uplo, int n, T* a, int lda, T* w, T* work, int length, int* info) {
  if (!is_ready(handle) || !are_on_gpu(a, w, work, info) || length != kLength || jobz != 1 || uplo != 0)
    return kInvalidValue;
  if (std::any_of(memory(a), memory(a) + n * n, [](T x) { return x != x; })) {  // as if it did not converge
    *memory(info) = 1;
    return kSuccess;
  }
  return with_work<T>([&](T* own, int* size) {
    return lapack<T>("syev", "V", "L", &n, memory(a), &lda, memory(w), own, size, memory(info), std::size_t{1},
                     std::size_t{1});
  });
}

template <class T>
int gesvd(void* handle, signed char jobu, signed char jobvt, int m, int n, T* a, int lda, T* s, T* u, int ldu, T* vt,
          int ldvt, T* work, int length, T*, int* info) {
  if (!is_ready(handle) || !are_on_gpu(a, s, u, vt, work, info) || length != kLength || jobu != 'S' ||
      jobvt != 'S' || m < n)
    return kInvalidValue;
  return with_work<T>([&](T* own, int* size) {
    return lapack<T>("gesvd", "S", "S", &m, &n, memory(a), &lda, memory(s), memory(u), &ldu, memory(vt), &ldvt, own,
                     size, memory(info), std::size_t{1}, std::size_t{1});
  });
}

template <class T>
int gesvdj(void* handle, int jobz, int econ, int m, int n, T* a, int lda, T* s, T* u, int ldu, T* v, int ldv, T* work,
           int length, int* info, void* params) {
  if (!is_ready(handle) || !are_on_gpu(a, s, u, v, work, info) || length != kLength || jobz != 1 || econ != 1 ||
      params == nullptr)
    return kInvalidValue;
  int k = std::min(m, n);
  std::vector<T> vt(static_cast<std::size_t>(k) * static_cast<std::size_t>(n));
  const int error = with_work<T>([&](T* own, int* size) {
    return lapack<T>("gesvd", "S", "S", &m, &n, memory(a), &lda, memory(s), memory(u), &ldu, vt.data(), &k, own, size,
                     memory(info), std::size_t{1}, std::size_t{1});
  });
  for (int row = 0; row < k; ++row)
    for (int column = 0; column < n; ++column) memory(v)[column + row * ldv] = vt[static_cast<std::size_t>(row + column * k)];
  return error;
}

/// All columns of u and v.
template <class T>
int gesvdj_batched(void* handle, int jobz, int m, int n, T* a, int lda, T* s, T* u, int ldu, T* v, int ldv, T* work,
                   int length, int* info, void* params, int count) {
  if (!is_ready(handle) || !are_on_gpu(a, s, u, v, work, info) || length != kLength || jobz != 1 ||
      params == nullptr || m > 32 || n > 32 || lda != m || ldu != m || ldv != n || count < 2)
    return kInvalidValue;
  for (int i = 0; i < count; ++i) {
    const int k = std::min(m, n);
    std::vector<T> vt(static_cast<std::size_t>(n) * static_cast<std::size_t>(n));
    const int error = with_work<T>([&](T* own, int* size) {
      return lapack<T>("gesvd", "A", "A", &m, &n, memory(a) + i * m * n, &lda, memory(s) + i * k, memory(u) + i * m * m,
                       &ldu, vt.data(), &n, own, size, memory(info) + i, std::size_t{1}, std::size_t{1});
    });
    if (error != kSuccess) return error;
    for (int row = 0; row < n; ++row)
      for (int column = 0; column < n; ++column)
        memory(v)[i * n * n + column + row * n] = vt[static_cast<std::size_t>(row + column * n)];
  }
  return kSuccess;
}

/// Of matrices of either dtype, one after the other.
template <class T>
int syev_of_batches(void* handle, std::int64_t n, void* a, void* w, void* work, int* info, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const int error = syevd(handle, 1, 0, static_cast<int>(n), static_cast<T*>(a) + i * n * n, static_cast<int>(n),
                            static_cast<T*>(w) + i * n, static_cast<T*>(work), kLength, info + i);
    if (error != kSuccess) return error;
  }
  return kSuccess;
}

int tell(void* handle, int* length) {
  *length = kLength;
  return is_ready(handle) ? kSuccess : kInvalidValue;
}

}  // namespace

extern "C" {

int cusolverDnCreate(void** handle) { return create(handle); }
int cusolverDnSetStream(void* handle, void* stream) { return set_stream(handle, stream); }
int cusolverDnCreateGesvdjInfo(void** params) {
  *params = new int;
  return kSuccess;
}

int cusolverDnDestroyGesvdjInfo(void* params) {
  delete static_cast<int*>(params);
  return kSuccess;
}

int cusolverDnCreateParams(void** params) {
  *params = new int;
  return kSuccess;
}
int cusolverDnXsyevBatched_bufferSize(void* handle, void* params, int, int, std::int64_t, int, const void*, std::int64_t, int,
                                      const void*, int, std::size_t* bytes, std::size_t* host_bytes, std::int64_t) {
  *bytes = *host_bytes = kLength;
  return is_ready(handle) && params != nullptr ? kSuccess : kInvalidValue;
}
int cusolverDnXsyevBatched(void* handle, void* params, int jobz, int uplo, std::int64_t n, int dtype, void* a,
                           std::int64_t lda, int dtype_of_w, void* w, int computed_in, void* work, std::size_t bytes,
                           void* host_work, std::size_t host_bytes, int* info, std::int64_t count) {
  if (params == nullptr || jobz != 1 || uplo != 0 || lda != n || dtype_of_w != dtype || computed_in != dtype ||
      host_work == nullptr || bytes != kLength || host_bytes != kLength || count < 2)
    return kInvalidValue;
  return dtype == 0 ? syev_of_batches<float>(handle, n, a, w, work, info, count)
                    : syev_of_batches<double>(handle, n, a, w, work, info, count);
}

#define ON_CPU(letter, T)                                                                                            \
  int cusolverDn##letter##getrf_bufferSize(void* h, int, int, T*, int, int* length) { return tell(h, length); }       \
  int cusolverDn##letter##getrf(void* h, int m, int n, T* a, int lda, T* work, int* pivots, int* info) {              \
    return getrf(h, m, n, a, lda, work, pivots, info);                                                               \
  }                                                                                                                  \
  int cusolverDn##letter##geqrf_bufferSize(void* h, int, int, T*, int, int* length) { return tell(h, length); }       \
  int cusolverDn##letter##geqrf(void* h, int m, int n, T* a, int lda, T* tau, T* work, int length, int* info) {       \
    return geqrf(h, m, n, a, lda, tau, work, length, info);                                                          \
  }                                                                                                                  \
  int cusolverDn##letter##orgqr_bufferSize(void* h, int, int, int, const T*, int, const T*, int* length) {            \
    return tell(h, length);                                                                                          \
  }                                                                                                                  \
  int cusolverDn##letter##orgqr(void* h, int m, int n, int k, T* a, int lda, const T* tau, T* work, int length,       \
                                int* info) {                                                                         \
    return orgqr(h, m, n, k, a, lda, tau, work, length, info);                                                       \
  }                                                                                                                  \
  int cusolverDn##letter##syevd_bufferSize(void* h, int, int, int, const T*, int, const T*, int* length) {            \
    return tell(h, length);                                                                                          \
  }                                                                                                                  \
  int cusolverDn##letter##syevd(void* h, int jobz, int uplo, int n, T* a, int lda, T* w, T* work, int length,         \
                                int* info) {                                                                         \
    return syevd(h, jobz, uplo, n, a, lda, w, work, length, info);                                                   \
  }                                                                                                                  \
  int cusolverDn##letter##gesvd_bufferSize(void* h, int, int, int* length) { return tell(h, length); }                \
  int cusolverDn##letter##gesvd(void* h, signed char jobu, signed char jobvt, int m, int n, T* a, int lda, T* s,      \
                                T* u, int ldu, T* vt, int ldvt, T* work, int length, T* rwork, int* info) {          \
    return gesvd(h, jobu, jobvt, m, n, a, lda, s, u, ldu, vt, ldvt, work, length, rwork, info);                      \
  }                                                                                                                  \
  int cusolverDn##letter##gesvdj_bufferSize(void* h, int, int, int, int, const T*, int, const T*, const T*, int,      \
                                            const T*, int, int* length, void*) {                                     \
    return tell(h, length);                                                                                          \
  }                                                                                                                  \
  int cusolverDn##letter##gesvdj(void* h, int jobz, int econ, int m, int n, T* a, int lda, T* s, T* u, int ldu, T* v, \
                                 int ldv, T* work, int length, int* info, void* params) {                            \
    return gesvdj(h, jobz, econ, m, n, a, lda, s, u, ldu, v, ldv, work, length, info, params);                       \
  }                                                                                                                  \
  int cusolverDn##letter##gesvdjBatched_bufferSize(void* h, int, int, int, const T*, int, const T*, const T*, int,   \
                                                   const T*, int, int* length, void*, int) {                         \
    return tell(h, length);                                                                                          \
  }                                                                                                                  \
  int cusolverDn##letter##gesvdjBatched(void* h, int jobz, int m, int n, T* a, int lda, T* s, T* u, int ldu, T* v,   \
                                        int ldv, T* work, int length, int* info, void* params, int count) {          \
    return gesvdj_batched(h, jobz, m, n, a, lda, s, u, ldu, v, ldv, work, length, info, params, count);              \
  }

ON_CPU(S, float)
ON_CPU(D, double)

}  // extern "C"
