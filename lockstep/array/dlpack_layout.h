// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// For this layer and its tests: what DLPack's tensors look like in memory, as its specification defines it
// (version 1.1). Users have their own dlpack.h, with the same structs in the global namespace.

namespace lockstep::dlpack {

enum DeviceType : std::int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kRocmHost = 11 };

enum TypeCode : std::uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6,
  kFloat8E4M3FN = 10,
  kFloat8E5M2 = 12,
};

struct Type {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};

struct __attribute__((may_alias)) Tensor {
  void* data;
  std::int32_t device_type, device_id;
  std::int32_t ndim;
  Type type;
  std::int64_t* shape;
  std::int64_t* strides;  ///< in elements; null: dense and row-major
  std::uint64_t byte_offset;
};

/// DLManagedTensor.
struct __attribute__((may_alias)) Unversioned {
  Tensor tensor;
  void* context;
  void (*deleter)(Unversioned*);
};

inline constexpr std::uint64_t kReadOnly = 1;

/// DLManagedTensorVersioned. With another major version only the version and the deleter are as here.
struct __attribute__((may_alias)) Versioned {
  std::uint32_t major, minor;
  void* context;
  void (*deleter)(Versioned*);
  std::uint64_t flags;
  Tensor tensor;
};

}  // namespace lockstep::dlpack
