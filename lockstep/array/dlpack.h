// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <source_location>

#include "lockstep/array/host_memory.h"

// The tensors of DLPack, which NumPy, PyTorch, JAX, CuPy and others exchange. Include the dlpack.h of your
// choice to look into them.
struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace lockstep {

/// The elements of a tensor in host memory; give it to `array`, `device_put` or
/// `make_array_from_process_local_data`. It takes the tensor over: the tensor's deleter is called once, on
/// any thread, when no array needs the memory any more, and also if this throws an error. Dense row-major
/// elements are not copied here; others are copied once. Do not change the elements until the deleter was
/// called, whatever the tensor's flags say. Throws Error for a tensor of another major version than 1 or in
/// the memory of a GPU, DTypeError for elements that have no dtype, ShapeError for a shape that cannot be,
/// and Error if it must copy but may not.
HostMemory dlpack_memory(DLManagedTensorVersioned* tensor, HostCopy copy = HostCopy::kIfNeeded,
                         std::source_location where = std::source_location::current());
HostMemory dlpack_memory(DLManagedTensor* tensor, HostCopy copy = HostCopy::kIfNeeded,
                         std::source_location where = std::source_location::current());

/// For a tensor in host memory, array(dlpack_memory(tensor, copy)): an array on this process's first device.
/// On CPU it is in the tensor's memory if the elements are dense and row-major and begin at a multiple of 64
/// bytes.
///
/// A tensor in the memory of a CUDA GPU that this process uses becomes an array there, always in place, and
/// committed to the GPU unless it is this process's first. Its elements must be computed: wait for the stream
/// that writes them. Throws Error, besides what dlpack_memory throws, for another device, and if the elements
/// are not dense and row-major or do not begin at a multiple of 16 bytes.
Array from_dlpack(DLManagedTensorVersioned* tensor, HostCopy copy = HostCopy::kIfNeeded,
                  std::source_location where = std::source_location::current());
Array from_dlpack(DLManagedTensor* tensor, HostCopy copy = HostCopy::kIfNeeded,
                  std::source_location where = std::source_location::current());

struct DlpackDeleter {
  /// Calls the tensor's deleter.
  void operator()(DLManagedTensorVersioned* tensor) const noexcept;
  void operator()(DLManagedTensor* tensor) const noexcept;
};

/// The elements of x as a tensor of DLPack 1.1, in place: dense, row-major, and marked as read-only, because
/// arrays do not change. Give `release()` to the library that takes it. The memory stays until the tensor is
/// deleted, also if x is deleted; a computation to which x is donated meanwhile writes its result elsewhere.
/// An array on a CUDA GPU becomes a tensor there. The deleter may be called on any thread until the process
/// ends. Blocks until x is computed, so that any stream may read it. Throws TraceError for a tracer,
/// ShardingError if no device of this process holds the whole array, and Error on TPUs.
std::unique_ptr<DLManagedTensorVersioned, DlpackDeleter> to_dlpack(
    const Array& x, std::source_location where = std::source_location::current());

/// The same for libraries that only know DLPack before 1.0. Such a tensor cannot say that it is read-only:
/// whoever takes it must not write to it.
std::unique_ptr<DLManagedTensor, DlpackDeleter> to_unversioned_dlpack(
    const Array& x, std::source_location where = std::source_location::current());

}  // namespace lockstep
