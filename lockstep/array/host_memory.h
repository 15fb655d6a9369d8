#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/base/error.h"

namespace lockstep {

/// Dense row-major elements in host memory, with who keeps them. An array that is made of it lies in this
/// very memory where the device's plugin allows: on CPU each part of it that begins at a multiple of
/// kAlignment bytes and is contiguous. Other parts are copied, and on GPUs all. The elements must not change
/// as long as an array uses them; no computation changes them, not even one that the array is donated to.
class HostMemory {
 public:
  static constexpr std::size_t kAlignment = 64;

  /// Memory of the caller's own. `owner` is let go, on any thread, when no array needs the memory any more.
  /// Throws ShapeError where there are not as many elements as the shape says.
  template <class T>
  HostMemory(std::span<const T> elements, Shape shape, std::shared_ptr<const void> owner)
      : HostMemory(elements.data(), elements.size(), dtype_of<T>, std::move(shape), std::move(owner)) {}

  /// Takes the vector over. Its memory is aligned to 16 bytes at best, so that most are copied all the same:
  /// `allocate` gives memory that is not.
  template <class T>
  HostMemory(std::vector<T> elements, Shape shape)
      : HostMemory(std::make_shared<const std::vector<T>>(std::move(elements)), std::move(shape)) {}

  /// Fresh memory, aligned to kAlignment and not initialized, to be filled through `elements()` before an
  /// array is made of it. Throws ShapeError for a size below 0.
  static HostMemory allocate(DType dtype, Shape shape);

  /// The elements of memory that `allocate` gave. Throws DTypeError where T is not of the dtype, and Error
  /// for memory that came from elsewhere.
  template <class T>
  std::span<T> elements() {
    return {static_cast<T*>(writable(dtype_of<T>)), static_cast<std::size_t>(num_elements(shape_))};
  }

  const void* data() const { return data_; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

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
};

/// An array of it on this process's first device, as `array` of a vector makes one.
Array array(HostMemory memory, std::source_location where = std::source_location::current());

/// The whole, which every process that takes part gives alike; each keeps its parts. Throws ShardingError
/// where a size is not divided.
Array device_put(HostMemory memory, const Sharding& sharding,
                 std::source_location where = std::source_location::current());

/// As of a vector (lockstep/array/device_put.h), in this process's memory.
Array make_array_from_process_local_data(const Sharding& sharding, HostMemory local_data,
                                         const std::optional<Shape>& global_shape = std::nullopt,
                                         std::source_location where = std::source_location::current());

}  // namespace lockstep
