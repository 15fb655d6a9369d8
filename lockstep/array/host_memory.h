// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/array/host_view.h"
#include "lockstep/base/error.h"

namespace lockstep {

/// What happens to host memory that an array cannot use in place.
enum class HostCopy : std::uint8_t {
  kIfNeeded,     ///< the array has a copy
  kMustNotCopy,  ///< Error, which says why: the strides, the alignment, a part that is not contiguous, a GPU
};

/// Dense row-major elements in host memory, with their owner. An array made from it uses this memory in place
/// if the device's plugin allows it: on CPU, each contiguous part that begins at a multiple of kAlignment
/// bytes. Other parts are copied, and on GPUs all. Do not change the elements while an array uses them. No
/// computation changes them, not even one to which the array is donated.
class HostMemory {
 public:
  static constexpr std::size_t kAlignment = 64;

  /// The caller's own memory. `owner` is released, on any thread, when no array needs the memory any more.
  /// Throws ShapeError if the number of elements is not that of the shape.
  template <class T>
  HostMemory(std::span<const T> elements, Shape shape, std::shared_ptr<const void> owner,
             HostCopy copy = HostCopy::kIfNeeded)
      : HostMemory(elements.data(), elements.size(), dtype_of<T>, std::move(shape), std::move(owner)) {
    copy_ = copy;
  }

  /// The same for elements at strides. They are used in place if they are dense and row-major; otherwise they
  /// are copied now, and the owner is released. Without an owner, each array that is made has a copy.
  HostMemory(const HostView& view, std::shared_ptr<const void> owner, HostCopy copy = HostCopy::kIfNeeded,
             std::source_location where = std::source_location::current());

  /// Takes over the vector. Its memory is aligned to at most 16 bytes, so most vectors are copied anyway;
  /// memory from `allocate` is not.
  template <class T>
  HostMemory(std::vector<T> elements, Shape shape)
      : HostMemory(std::make_shared<const std::vector<T>>(std::move(elements)), std::move(shape)) {}

  /// New memory, aligned to kAlignment and not initialized. Fill it through `elements()` before you make an
  /// array from it. Throws ShapeError for a negative size.
  static HostMemory allocate(DType dtype, Shape shape);

  /// The elements of memory from `allocate`. Throws DTypeError if T is not the C++ type of the dtype, and
  /// Error for other memory.
  template <class T>
  std::span<T> elements() {
    return {static_cast<T*>(writable(dtype_of<T>)), static_cast<std::size_t>(num_elements(shape_))};
  }

  const void* data() const { return data_; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }
  HostCopy copy() const { return copy_; }

  /// Whether all parts of x on this process's devices are in this memory, not in copies of it. Keep a copy of
  /// this object, which shares the memory, to ask. Blocks until x is computed.
  bool is_used_by(const Array& x, std::source_location where = std::source_location::current()) const;

 private:
  HostMemory(const void* data, std::size_t count, DType dtype, Shape shape,
             std::shared_ptr<const void> owner);
  template <class T>
  HostMemory(std::shared_ptr<const std::vector<T>> elements, Shape shape)
      : HostMemory(elements->data(), elements->size(), dtype_of<T>, std::move(shape), elements) {}
  void* writable(DType dtype) const;

  const void* data_;
  DType dtype_;
  Shape shape_;
  std::shared_ptr<const void> owner_;
  bool writable_ = false;
  HostCopy copy_ = HostCopy::kIfNeeded;
};

/// An array of it on this process's first device, as `array` makes from a vector.
Array array(HostMemory memory, std::source_location where = std::source_location::current());

/// The whole array, the same on every process that takes part; each keeps its parts. Throws ShardingError if
/// the mesh does not divide a size.
Array device_put(HostMemory memory, const Sharding& sharding,
                 std::source_location where = std::source_location::current());

/// As for a vector (lockstep/array/device_put.h), in this process's memory.
Array make_array_from_process_local_data(const Sharding& sharding, HostMemory local_data,
                                         const std::optional<Shape>& global_shape = std::nullopt,
                                         std::source_location where = std::source_location::current());

}  // namespace lockstep
