// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace lockstep::onednn {

/// What Lockstep uses of oneDNN's C interface, version 3 (oneapi/dnnl/dnnl.h): every handle is opaque, every
/// function returns 0 for success, and dims have kMostDims elements.
struct Engine;
struct Stream;
struct Attributes;
struct MemoryDesc;
struct Memory;
struct PrimitiveDesc;
struct Primitive;

inline constexpr int kMostDims = 12;
using Dims = std::int64_t[kMostDims];

inline constexpr int kCpu = 1, kInOrder = 1, kF32 = 3, kAnyFormat = 1, kForwardTraining = 64, kDirect = 1,
                     kScratchpadOfCaller = 1;

/// What a primitive's description is asked for.
inline constexpr int kImplementation = 8, kSource = 129, kDiffSource = 130, kWeights = 131,
                     kDiffWeights = 132, kDestination = 133, kDiffDestination = 134, kScratchpad = 136;

/// The number of an argument of a primitive.
inline constexpr int kArgSource = 1, kArgDestination = 17, kArgWeights = 33, kArgScratchpad = 80,
                     kArgDiffSource = 129, kArgDiffDestination = 145, kArgDiffWeights = 161;

struct Argument {
  int which;
  Memory* memory;
};

struct Functions {
  int (*engine_create)(Engine**, int kind, std::size_t index);
  int (*stream_create)(Stream**, Engine*, unsigned flags);
  int (*stream_destroy)(Stream*);
  int (*primitive_attr_create)(Attributes**);
  int (*primitive_attr_set_scratchpad_mode)(Attributes*, int mode);
  int (*memory_desc_create_with_strides)(MemoryDesc**, int rank, const std::int64_t* dims, int dtype,
                                         const std::int64_t* strides);
  int (*memory_desc_create_with_tag)(MemoryDesc**, int rank, const std::int64_t* dims, int dtype, int tag);
  int (*memory_desc_clone)(MemoryDesc**, const MemoryDesc*);
  int (*memory_desc_destroy)(MemoryDesc*);
  int (*memory_desc_equal)(const MemoryDesc*, const MemoryDesc*);
  std::size_t (*memory_desc_get_size)(const MemoryDesc*);
  int (*memory_create)(Memory**, const MemoryDesc*, Engine*, void* data);
  int (*memory_destroy)(Memory*);
  int (*convolution_forward_primitive_desc_create)(PrimitiveDesc**, Engine*, int prop_kind, int algorithm,
                                                   const MemoryDesc* source, const MemoryDesc* weights,
                                                   const MemoryDesc* bias, const MemoryDesc* destination,
                                                   const std::int64_t* strides, const std::int64_t* dilates,
                                                   const std::int64_t* low, const std::int64_t* high,
                                                   const Attributes*);
  int (*convolution_backward_data_primitive_desc_create)(
      PrimitiveDesc**, Engine*, int algorithm, const MemoryDesc* diff_source, const MemoryDesc* weights,
      const MemoryDesc* diff_destination, const std::int64_t* strides, const std::int64_t* dilates,
      const std::int64_t* low, const std::int64_t* high, const PrimitiveDesc* forward, const Attributes*);
  int (*convolution_backward_weights_primitive_desc_create)(
      PrimitiveDesc**, Engine*, int algorithm, const MemoryDesc* source, const MemoryDesc* diff_weights,
      const MemoryDesc* diff_bias, const MemoryDesc* diff_destination, const std::int64_t* strides,
      const std::int64_t* dilates, const std::int64_t* low, const std::int64_t* high,
      const PrimitiveDesc* forward, const Attributes*);
  int (*matmul_primitive_desc_create)(PrimitiveDesc**, Engine*, const MemoryDesc* source,
                                      const MemoryDesc* weights, const MemoryDesc* bias,
                                      const MemoryDesc* destination, const Attributes*);
  int (*reorder_primitive_desc_create)(PrimitiveDesc**, const MemoryDesc* source, Engine* source_engine,
                                       const MemoryDesc* destination, Engine* destination_engine,
                                       const Attributes*);
  int (*primitive_desc_query)(const PrimitiveDesc*, int what, int index, void* result);
  const MemoryDesc* (*primitive_desc_query_md)(const PrimitiveDesc*, int what, int index);
  int (*primitive_desc_destroy)(PrimitiveDesc*);
  int (*primitive_create)(Primitive**, const PrimitiveDesc*);
  int (*primitive_destroy)(Primitive*);
  int (*primitive_execute)(const Primitive*, Stream*, int count, const Argument* arguments);
  int (*sgemm)(char transpose_a, char transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
               float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta,
               float* c, std::int64_t ldc);
};

struct Library {
  Functions call{};
  Engine* engine = nullptr;
  /// Of every primitive: the caller brings the memory for intermediate results. oneDNN's own belongs to the
  /// thread that made the primitive.
  Attributes* attributes = nullptr;
  std::string description;

  /// Of the OpenMP runtime that it uses, for the calling thread.
  int (*omp_get_max_threads)() = nullptr;
  void (*omp_set_num_threads)(int count) = nullptr;
};

/// The library, loaded once; null if that failed, for the reason in description().
const Library* find_library();

/// While it exists, oneDNN computes on the calling thread alone; so it must when a primitive is made.
class OneThread {
 public:
  explicit OneThread(const Library& library) : library_(library), before_(library.omp_get_max_threads()) {
    if (before_ != 1) library_.omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) library_.omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const Library& library_;
  const int before_;
};

/// c, [m, n], = beta c + a b, row-major; 'T': a or b is the transposed matrix. By the calling thread alone
/// while there is a OneThread.
void sgemm(const Library& library, char transpose_a, char transpose_b, std::int64_t m, std::int64_t n,
           std::int64_t k, const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta,
           float* c, std::int64_t ldc);

/// The calling thread's stream.
Stream* stream_of(const Library& library);

template <class T, int (*Functions::*destroy)(T*)>
struct Destroy {
  void operator()(T* handle) const { (find_library()->call.*destroy)(handle); }
};
template <class T, int (*Functions::*destroy)(T*)>
using Handle = std::unique_ptr<T, Destroy<T, destroy>>;

using StreamHandle = Handle<Stream, &Functions::stream_destroy>;
using MemoryDescHandle = Handle<MemoryDesc, &Functions::memory_desc_destroy>;
using MemoryHandle = Handle<Memory, &Functions::memory_destroy>;
using PrimitiveDescHandle = Handle<PrimitiveDesc, &Functions::primitive_desc_destroy>;
using PrimitiveHandle = Handle<Primitive, &Functions::primitive_destroy>;

}  // namespace lockstep::onednn
