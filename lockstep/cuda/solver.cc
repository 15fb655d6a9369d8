// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cuda/solver.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/collectives/ffi_call.h"
#include "lockstep/cuda/solver_library.h"
#include "lockstep/cuda/stream.h"
#include "xla/ffi/api/c_api.h"

namespace lockstep::cuda {
namespace {

constexpr int kVectors = 1, kLower = 0;  // CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER

/// One call for many matrices is faster than one for each of those that have this many rows and columns for
/// each of the others. JAX's number (jaxlib/gpu/solver_kernels_ffi.cc).
constexpr std::int64_t kMostInBatches = 128;

void check(int status, std::string_view what) {
  if (status == 0) return;
  fail(
      "{} of cuSOLVER or cuBLAS returned status {}, a cusolverStatus_t or cublasStatus_t of CUDA's "
      "documentation",
      what, status);
}

/// A handle of a library (Solver, Blas) for a stream; to make one takes milliseconds, so that it is kept for
/// the next call.
template <class Library>
class HandleFor {
 public:
  HandleFor(const Library& library, const Stream& stream) : stream_(stream.get()) {
    {
      std::lock_guard lock(mutex());
      std::vector<Handle>& of_stream = idle()[stream_];
      if (!of_stream.empty()) {
        handle_ = of_stream.back();
        of_stream.pop_back();
        return;
      }
    }
    check(library.create(&handle_), "the function that creates a handle");
    check(library.set_stream(handle_, stream_), "the function that sets a handle's stream");
  }
  ~HandleFor() {
    std::lock_guard lock(mutex());
    idle()[stream_].push_back(handle_);
  }
  HandleFor(const HandleFor&) = delete;
  HandleFor& operator=(const HandleFor&) = delete;

  Handle get() const { return handle_; }

 private:
  static std::mutex& mutex() {
    static auto& mutex = *new std::mutex;
    return mutex;
  }
  static std::map<void*, std::vector<Handle>>& idle() {
    static auto& all = *new std::map<void*, std::vector<Handle>>;
    return all;
  }

  void* stream_;
  Handle handle_ = nullptr;
};

/// Memory of the device for the time of a call: the stream's next work may have it.
class Scratch {
 public:
  Scratch(const XLA_FFI_CallFrame& frame, std::size_t bytes)
      : frame_(frame), bytes_(std::max<std::size_t>(bytes, 1)) {
    XLA_FFI_DeviceMemory_Allocate_Args args{};
    args.struct_size = XLA_FFI_DeviceMemory_Allocate_Args_STRUCT_SIZE;
    args.ctx = frame.ctx;
    args.size = bytes_;
    args.alignment = 64;
    if (!collectives::ffi_succeeded(frame, frame.api->XLA_FFI_DeviceMemory_Allocate(&args)))
      fail("a GPU has no memory left for the {} bytes that cuSOLVER or cuBLAS needs to work in", bytes_);
    data_ = args.data;
  }
  ~Scratch() {
    XLA_FFI_DeviceMemory_Free_Args args{};
    args.struct_size = XLA_FFI_DeviceMemory_Free_Args_STRUCT_SIZE;
    args.ctx = frame_.ctx;
    args.size = bytes_;
    args.data = data_;
    collectives::ffi_succeeded(frame_, frame_.api->XLA_FFI_DeviceMemory_Free(&args));
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  const XLA_FFI_CallFrame& frame_;
  std::size_t bytes_;
  void* data_ = nullptr;
};

int as_int(std::int64_t size) {
  if (size > std::numeric_limits<int>::max()) fail("a matrix of {} rows is too large for cuSOLVER", size);
  return static_cast<int>(size);
}

/// A call of a routine for all matrices.
template <class T>
class Call {
 public:
  Call(const XLA_FFI_CallFrame& frame, const Solver& solver)
      : frame_(frame),
        routines_(std::get<Routines<T>>(solver.routines)),
        of_batches_(solver.of_batches),
        blas_(solver.blas),
        stream_(frame),
        context_(stream_),
        handle_(solver, stream_),
        m_(as_int(collectives::ffi_number(frame, "rows"))),
        n_(as_int(collectives::ffi_number(frame, "columns"))),
        k_(std::min(m_, n_)) {
    const XLA_FFI_Buffer& x = operand(0);
    for (std::int64_t d = 0; d + 2 < x.rank; ++d) count_ *= x.dims[d];
  }

  void getrf() {
    T* const x = result<T>(0);
    int* const pivots = result<int>(1);
    if (m_ == n_ && are_small()) {
      getrf_batched(x, pivots);
    } else {
      const Work work(
          *this, [&](int* length) { return routines_.getrf_size(handle_.get(), m_, n_, x, m_, length); });
      for (std::int64_t i = 0; i < count_; ++i) {
        check(routines_.getrf(handle_.get(), m_, n_, x + i * m_ * n_, m_, work.memory(), pivots + i * k_,
                              work.info()),
              "getrf");
      }
    }
    // The rows are exchanged one after the other: on the host that takes no longer than on a GPU.
    std::vector<int> on_host(static_cast<std::size_t>(count_ * k_)),
        rows(static_cast<std::size_t>(count_ * m_));
    stream_.to_host(on_host.data(), pivots, on_host.size() * sizeof(int));
    stream_.await();
    for (std::int64_t i = 0; i < count_; ++i) {
      int *const of = rows.data() + i * m_, *const with = on_host.data() + i * k_;
      for (int row = 0; row < m_; ++row) of[row] = row;
      for (int row = 0; row < k_; ++row) std::swap(of[row], of[--with[row]]);
    }
    stream_.to_device(pivots, on_host.data(), on_host.size() * sizeof(int));
    stream_.to_device(result<int>(2), rows.data(), rows.size() * sizeof(int));
    stream_.await();
  }

  void geqrf() {
    T *const x = result<T>(0), *const taus = result<T>(1);
    if (are_small()) return geqrf_batched(x, taus);
    const Work work(*this,
                    [&](int* length) { return routines_.geqrf_size(handle_.get(), m_, n_, x, m_, length); });
    for (std::int64_t i = 0; i < count_; ++i) {
      check(routines_.geqrf(handle_.get(), m_, n_, x + i * m_ * n_, m_, taus + i * k_, work.memory(),
                            work.length(), work.info()),
            "geqrf");
    }
  }

  void orgqr() {
    T* const x = result<T>(0);
    const XLA_FFI_Buffer& taus_of = operand(1);
    const int k = as_int(taus_of.dims[taus_of.rank - 1]);
    const auto* const taus = static_cast<const T*>(taus_of.data);
    const Work work(*this, [&](int* length) {
      return routines_.orgqr_size(handle_.get(), m_, n_, k, x, m_, taus, length);
    });
    for (std::int64_t i = 0; i < count_; ++i) {
      check(routines_.orgqr(handle_.get(), m_, n_, k, x + i * m_ * n_, m_, taus + i * k, work.memory(),
                            work.length(), work.info()),
            "orgqr");
    }
  }

  void syevd() {
    T *const x = result<T>(0), *const w = result<T>(1);
    int* const info = result<int>(2);
    if (count_ > 1 && of_batches_.syev != nullptr) return syev_of_batches(x, w, info);
    const Work work(*this, [&](int* length) {
      return routines_.syevd_size(handle_.get(), kVectors, kLower, n_, x, n_, w, length);
    });
    for (std::int64_t i = 0; i < count_; ++i) {
      check(routines_.syevd(handle_.get(), kVectors, kLower, n_, x + i * n_ * n_, n_, w + i * n_,
                            work.memory(), work.length(), info + i),
            "syevd");
    }
  }

  void syev_of_batches(T* x, T* w, int* info) {
    constexpr int kDtype = sizeof(T) == sizeof(float) ? 0 : 1;  // CUDA_R_32F, CUDA_R_64F
    static void* const params = [&] {
      void* made = nullptr;
      check(of_batches_.create_params(&made), "cusolverDnCreateParams");
      return made;
    }();
    // cuSOLVER counts elements in 32 bits.
    const std::int64_t matrix = std::int64_t{n_} * n_,
                       most = std::max<std::int64_t>(std::numeric_limits<int>::max() / matrix, 1);
    for (std::int64_t i = 0; i < count_; i += most) {
      const std::int64_t count = std::min(most, count_ - i);
      std::size_t bytes = 0, host_bytes = 0;
      check(of_batches_.syev_size(handle_.get(), params, kVectors, kLower, n_, kDtype, x + i * matrix, n_,
                                  kDtype, w + i * n_, kDtype, &bytes, &host_bytes, count),
            "syevBatched_bufferSize");
      const Scratch work(frame_, bytes);
      const auto host_work = std::make_unique_for_overwrite<std::byte[]>(host_bytes);
      check(of_batches_.syev(handle_.get(), params, kVectors, kLower, n_, kDtype, x + i * matrix, n_, kDtype,
                             w + i * n_, kDtype, work.as<void>(), bytes, host_work.get(), host_bytes,
                             info + i, count),
            "syevBatched");
    }
  }

  void gesvdj(void* params) {
    T *const x = result<T>(0), *const s = result<T>(1), *const u = result<T>(2), *const v = result<T>(3);
    int* const info = result<int>(4);
    const Work work(*this, [&](int* length) {
      return routines_.gesvdj_size(handle_.get(), kVectors, /*econ=*/1, m_, n_, x, m_, s, u, m_, v, n_,
                                   length, params);
    });
    for (std::int64_t i = 0; i < count_; ++i) {
      check(routines_.gesvdj(handle_.get(), kVectors, /*econ=*/1, m_, n_, x + i * m_ * n_, m_, s + i * k_,
                             u + i * m_ * k_, m_, v + i * n_ * k_, n_, work.memory(), work.length(), info + i,
                             params),
            "gesvdj");
    }
  }

  void gesvdj_batched(void* params) {
    T *const x = result<T>(0), *const s = result<T>(1), *const u = result<T>(2), *const v = result<T>(3);
    const int count = as_int(count_);
    const Work work(*this, [&](int* length) {
      return routines_.gesvdj_batched_size(handle_.get(), kVectors, m_, n_, x, m_, s, u, m_, v, n_, length,
                                           params, count);
    });
    check(routines_.gesvdj_batched(handle_.get(), kVectors, m_, n_, x, m_, s, u, m_, v, n_, work.memory(),
                                   work.length(), result<int>(4), params, count),
          "gesvdjBatched");
  }

  void gesvd() {
    T *const x = result<T>(0), *const s = result<T>(1), *const u = result<T>(2), *const vt = result<T>(3);
    int* const info = result<int>(4);
    const Work work(*this, [&](int* length) { return routines_.gesvd_size(handle_.get(), m_, n_, length); });
    for (std::int64_t i = 0; i < count_; ++i) {
      check(routines_.gesvd(handle_.get(), 'S', 'S', m_, n_, x + i * m_ * n_, m_, s + i * k_, u + i * m_ * k_,
                            m_, vt + i * n_ * k_, k_, work.memory(), work.length(), nullptr, info + i),
            "gesvd");
    }
  }

 private:
  /// Whether one call of cuBLAS decomposes all matrices.
  bool are_small() const {
    return blas_.create != nullptr && count_ > 1 && count_ <= std::numeric_limits<int>::max() &&
           m_ / count_ <= kMostInBatches && n_ / count_ <= kMostInBatches;
  }

  void getrf_batched(T* x, int* pivots) {
    const HandleFor<Blas> handle(blas_, stream_);
    const Addresses matrices(*this, x, std::int64_t{m_} * n_);
    const Scratch info(frame_, static_cast<std::size_t>(count_) * sizeof(int));
    check(std::get<BlasRoutines<T>>(blas_.routines)
              .getrf(handle.get(), n_, matrices.get(), n_, pivots, info.as<int>(), as_int(count_)),
          "getrfBatched");
    stream_.await();
  }

  void geqrf_batched(T* x, T* taus) {
    const HandleFor<Blas> handle(blas_, stream_);
    const Addresses matrices(*this, x, std::int64_t{m_} * n_), vectors(*this, taus, k_);
    int info = 0;
    check(std::get<BlasRoutines<T>>(blas_.routines)
              .geqrf(handle.get(), m_, n_, matrices.get(), m_, vectors.get(), &info, as_int(count_)),
          "geqrfBatched");
    if (info != 0) fail("geqrfBatched of cuBLAS does not take its argument {}", -info);
    stream_.await();
  }

  /// The addresses of successive parts of x, one for each matrix, in the GPU's memory. The stream must have
  /// reached the copy before the end.
  class Addresses {
   public:
    Addresses(const Call& call, T* x, std::int64_t elements)
        : on_host_(static_cast<std::size_t>(call.count_)), memory_(call.frame_, bytes()) {
      for (std::size_t i = 0; i < on_host_.size(); ++i)
        on_host_[i] = x + static_cast<std::int64_t>(i) * elements;
      call.stream_.to_device(memory_.template as<void>(), on_host_.data(), bytes());
    }
    T* const* get() const { return memory_.template as<T*>(); }

   private:
    std::size_t bytes() const { return on_host_.size() * sizeof(T*); }

    std::vector<T*> on_host_;
    Scratch memory_;
  };

  /// The memory that a routine works in, and an info for routines whose own is no result.
  class Work {
   public:
    template <class Size>
    Work(const Call& call, const Size& size)
        : length_(wanted(size)), memory_(call.frame_, bytes()), info_(call.frame_, 4) {}

    T* memory() const { return memory_.template as<T>(); }
    int length() const { return length_; }
    int* info() const { return info_.template as<int>(); }

   private:
    template <class Size>
    static int wanted(const Size& size) {
      int length = 0;
      check(size(&length), "a routine's function _bufferSize");
      return length;
    }
    std::size_t bytes() const { return static_cast<std::size_t>(length_) * sizeof(T); }

    int length_;
    Scratch memory_, info_;
  };

  const XLA_FFI_Buffer& operand(std::int64_t i) const {
    return *static_cast<const XLA_FFI_Buffer*>(frame_.args.args[i]);
  }
  template <class E>
  E* result(std::int64_t i) const {
    return static_cast<E*>(static_cast<const XLA_FFI_Buffer*>(frame_.rets.rets[i])->data);
  }

  const XLA_FFI_CallFrame& frame_;
  const Routines<T>& routines_;
  const OfBatches& of_batches_;
  const Blas& blas_;
  const Stream stream_;
  const InContextOf context_;
  const HandleFor<Solver> handle_;
  const int m_, n_, k_;
  std::int64_t count_ = 1;
};

/// The parameters of gesvdj as they are by default. A call writes into them.
class GesvdjParams {
 public:
  explicit GesvdjParams(const Solver& solver) : solver_(solver) {
    check(solver.create_gesvdj(&params_), "cusolverDnCreateGesvdjInfo");
  }
  ~GesvdjParams() { solver_.destroy_gesvdj(params_); }
  GesvdjParams(const GesvdjParams&) = delete;
  GesvdjParams& operator=(const GesvdjParams&) = delete;

  void* get() const { return params_; }

 private:
  const Solver& solver_;
  void* params_ = nullptr;
};

template <class T>
void run(const XLA_FFI_CallFrame& frame, const Solver& solver) {
  const std::string_view routine = collectives::ffi_text(frame, "routine");
  Call<T> call(frame, solver);
  if (routine == "getrf")
    call.getrf();
  else if (routine == "geqrf")
    call.geqrf();
  else if (routine == "orgqr")
    call.orgqr();
  else if (routine == "syevd")
    call.syevd();
  else if (routine == "gesvdj")
    call.gesvdj(GesvdjParams(solver).get());
  else if (routine == "gesvdjBatched")
    call.gesvdj_batched(GesvdjParams(solver).get());
  else if (routine == "gesvd")
    call.gesvd();
  else
    fail("a custom call asks for {} of cuSOLVER, which Lockstep does not call", routine);
}

void execute(const XLA_FFI_CallFrame& frame) {
  const Solver* const solver = find_solver();
  if (solver == nullptr)
    fail("a compiled program calls cuSOLVER, which cannot be loaded here: {}", describe_solver());
  const auto dtype = static_cast<const XLA_FFI_Buffer*>(frame.args.args[0])->dtype;
  if (dtype == XLA_FFI_DataType_F64)
    run<double>(frame, *solver);
  else
    run<float>(frame, *solver);
}

XLA_FFI_Error* handler(XLA_FFI_CallFrame* frame) { return collectives::handle_ffi_call(*frame, execute); }

}  // namespace

void* solver_handler() { return reinterpret_cast<void*>(&handler); }

}  // namespace lockstep::cuda
