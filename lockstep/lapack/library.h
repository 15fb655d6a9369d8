// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>

namespace lockstep::lapack {

/// Fortran's default integer, as Debian's libopenblas.so.0 is built.
using Int = std::int32_t;

/// The LAPACK routines of one dtype that Lockstep calls, in Fortran's calling convention: all arguments are
/// pointers, and the lengths of texts come last.
template <class T>
struct Routines {
  void (*potrf)(const char* uplo, const Int* n, T* a, const Int* lda, Int* info, std::size_t);
  void (*trsm)(const char* side, const char* uplo, const char* trans, const char* diag, const Int* m,
               const Int* n, const T* alpha, const T* a, const Int* lda, T* b, const Int* ldb, std::size_t,
               std::size_t, std::size_t, std::size_t);
  void (*gelqf)(const Int* m, const Int* n, T* a, const Int* lda, T* tau, T* work, const Int* lwork,
                Int* info);
  void (*orglq)(const Int* m, const Int* n, const Int* k, T* a, const Int* lda, const T* tau, T* work,
                const Int* lwork, Int* info);
  void (*geqrf)(const Int* m, const Int* n, T* a, const Int* lda, T* tau, T* work, const Int* lwork,
                Int* info);
  void (*orgqr)(const Int* m, const Int* n, const Int* k, T* a, const Int* lda, const T* tau, T* work,
                const Int* lwork, Int* info);
  void (*getrf)(const Int* m, const Int* n, T* a, const Int* lda, Int* pivots, Int* info);
  void (*syevd)(const char* jobz, const char* uplo, const Int* n, T* a, const Int* lda, T* w, T* work,
                const Int* lwork, Int* iwork, const Int* liwork, Int* info, std::size_t, std::size_t);
  void (*gesdd)(const char* jobz, const Int* m, const Int* n, T* a, const Int* lda, T* s, T* u,
                const Int* ldu, T* vt, const Int* ldvt, T* work, const Int* lwork, Int* iwork, Int* info,
                std::size_t);
  void (*geev)(const char* jobvl, const char* jobvr, const Int* n, T* a, const Int* lda, T* wr, T* wi, T* vl,
               const Int* ldvl, T* vr, const Int* ldvr, T* work, const Int* lwork, Int* info, std::size_t,
               std::size_t);
  void (*gees)(const char* jobvs, const char* sort, void* select, const Int* n, T* a, const Int* lda,
               Int* sdim, T* wr, T* wi, T* vs, const Int* ldvs, T* work, const Int* lwork, Int* bwork,
               Int* info, std::size_t, std::size_t);
  /// An extension of OpenBLAS: b = alpha op(a), where a is rows x cols.
  void (*omatcopy)(const char* order, const char* trans, const Int* rows, const Int* cols, const T* alpha,
                   const T* a, const Int* lda, T* b, const Int* ldb, std::size_t, std::size_t);
};

/// The same for complex numbers whose parts are T.
template <class T>
struct ComplexRoutines {
  using C = std::complex<T>;
  void (*gees)(const char* jobvs, const char* sort, void* select, const Int* n, C* a, const Int* lda,
               Int* sdim, C* w, C* vs, const Int* ldvs, C* work, const Int* lwork, T* rwork, Int* bwork,
               Int* info, std::size_t, std::size_t);
  void (*gemm)(const char* transa, const char* transb, const Int* m, const Int* n, const Int* k,
               const C* alpha, const C* a, const Int* lda, const C* b, const Int* ldb, const C* beta, C* c,
               const Int* ldc, std::size_t, std::size_t);
};

struct Library {
  Routines<float> f32;
  Routines<double> f64;
  ComplexRoutines<float> c64;
  ComplexRoutines<double> c128;
  std::string description;

  int threads = 1;  ///< of the library
  /// The number of threads of the next calls, of all threads of the process; null if it cannot be set.
  void (*set_threads)(int count) = nullptr;

  template <class T>
  const Routines<T>& of() const {
    if constexpr (sizeof(T) == sizeof(float))
      return f32;
    else
      return f64;
  }
  template <class T>
  const ComplexRoutines<T>& complex_of() const {
    if constexpr (sizeof(T) == sizeof(float))
      return c64;
    else
      return c128;
  }
};

/// The library, loaded once; null if that failed, for the reason in description().
const Library* find_library();

}  // namespace lockstep::lapack
