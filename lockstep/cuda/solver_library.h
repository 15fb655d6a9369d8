// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>

namespace lockstep::cuda {

/// A cusolverDnHandle_t.
using Handle = void*;

/// The functions of cusolverDn.h, versions 11 and 12, of one dtype. Enums are int; 0 is success.
template <class T>
struct Routines {
  int (*getrf_size)(Handle, int m, int n, T* a, int lda, int* length);
  int (*getrf)(Handle, int m, int n, T* a, int lda, T* work, int* pivots, int* info);
  int (*geqrf_size)(Handle, int m, int n, T* a, int lda, int* length);
  int (*geqrf)(Handle, int m, int n, T* a, int lda, T* tau, T* work, int length, int* info);
  int (*orgqr_size)(Handle, int m, int n, int k, const T* a, int lda, const T* tau, int* length);
  int (*orgqr)(Handle, int m, int n, int k, T* a, int lda, const T* tau, T* work, int length, int* info);
  int (*syevd_size)(Handle, int jobz, int uplo, int n, const T* a, int lda, const T* w, int* length);
  int (*syevd)(Handle, int jobz, int uplo, int n, T* a, int lda, T* w, T* work, int length, int* info);
  int (*gesvdj_size)(Handle, int jobz, int econ, int m, int n, const T* a, int lda, const T* s, const T* u,
                     int ldu, const T* v, int ldv, int* length, void* params);
  int (*gesvdj)(Handle, int jobz, int econ, int m, int n, T* a, int lda, T* s, T* u, int ldu, T* v, int ldv,
                T* work, int length, int* info, void* params);
  int (*gesvdj_batched_size)(Handle, int jobz, int m, int n, const T* a, int lda, const T* s, const T* u,
                             int ldu, const T* v, int ldv, int* length, void* params, int count);
  int (*gesvdj_batched)(Handle, int jobz, int m, int n, T* a, int lda, T* s, T* u, int ldu, T* v, int ldv,
                        T* work, int length, int* info, void* params, int count);
  int (*gesvd_size)(Handle, int m, int n, int* length);
  int (*gesvd)(Handle, signed char jobu, signed char jobvt, int m, int n, T* a, int lda, T* s, T* u, int ldu,
               T* vt, int ldvt, T* work, int length, T* rwork, int* info);
};

/// Of any dtype; null in cuSOLVER before 11.7. A dtype is a cudaDataType.
struct OfBatches {
  int (*create_params)(void** params);
  int (*syev_size)(Handle, void* params, int jobz, int uplo, std::int64_t n, int dtype, const void* a,
                   std::int64_t lda, int dtype_of_w, const void* w, int computed_in, std::size_t* bytes,
                   std::size_t* host_bytes, std::int64_t count);
  int (*syev)(Handle, void* params, int jobz, int uplo, std::int64_t n, int dtype, void* a, std::int64_t lda,
              int dtype_of_w, void* w, int computed_in, void* work, std::size_t bytes, void* host_work,
              std::size_t host_bytes, int* info, std::int64_t count);
};

/// The functions of cublas_v2.h for many small matrices at once. `a` and `taus` are arrays of addresses in
/// the GPU's memory; geqrf's info is in the host's.
template <class T>
struct BlasRoutines {
  int (*getrf)(Handle, int n, T* const* a, int lda, int* pivots, int* info, int count);
  int (*geqrf)(Handle, int m, int n, T* const* a, int lda, T* const* taus, int* info, int count);
};

/// cuBLAS, on which cuSOLVER is built; null if it cannot be loaded.
struct Blas {
  int (*create)(Handle*);
  int (*set_stream)(Handle, void* stream);
  std::tuple<BlasRoutines<float>, BlasRoutines<double>> routines;
};

struct Solver {
  int (*create)(Handle*);
  int (*set_stream)(Handle, void* stream);
  int (*create_gesvdj)(void** params);
  int (*destroy_gesvdj)(void* params);
  std::tuple<Routines<float>, Routines<double>> routines;
  OfBatches of_batches;
  Blas blas;
};

/// The library, loaded once; null if that failed, for the reason in describe_solver().
const Solver* find_solver();

}  // namespace lockstep::cuda
