#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/base/call_site.h"
#include "lockstep/base/error.h"

namespace lockstep {

/// x, spread as the sharding says. Where x is readable on this process as a whole, every process that takes
/// part gives the same values and keeps its part. Where it is over several processes they exchange the parts
/// by a computation that all processes of x's mesh must launch; over another mesh, only if the parts of x
/// cannot be named by axes of that, every process gets the whole on the way. Throws ShardingError where a
/// size is not divided.
Array device_put(const Array& x, const Sharding& sharding,
                 std::source_location where = std::source_location::current());

/// The global shape that make_array_from_process_local_data gives to local data of this shape. Throws as that
/// does.
Shape local_to_global_shape(const Sharding& sharding, const Shape& local_shape,
                            std::source_location where = std::source_location::current());

namespace internal {

/// See make_array_from_process_local_data; `shape` is the local data's, and dtype and data are what it holds.
/// The data is copied where `owner` is null; otherwise the array may lie in it and holds the owner.
Array from_process_local_data(const Sharding& sharding, const void* data, DType dtype, const Shape& shape,
                              const std::optional<Shape>& global_shape, const CallSite& site,
                              std::shared_ptr<const void> owner = nullptr);

/// The same of the whole.
Array put_host(const Sharding& sharding, const void* data, DType dtype, const Shape& shape,
               std::shared_ptr<const void> owner);

}  // namespace internal

/// A global array from the part of it that this process has: dense and row-major, `local_shape` in all, which
/// is what this process's devices hold together. Every process that takes part must call it. In a dimension
/// that is split over processes, the global size is the local one times the number of processes' parts,
/// unless `global_shape` says it. The data is copied. Throws ShardingError where the local data does not fit
/// the sharding, naming the dimension, and where this process's devices hold no contiguous part.
template <class T>
Array make_array_from_process_local_data(const Sharding& sharding, std::span<const T> local_data,
                                         const Shape& local_shape,
                                         const std::optional<Shape>& global_shape = std::nullopt,
                                         std::source_location where = std::source_location::current()) {
  if (static_cast<std::int64_t>(local_data.size()) != num_elements(local_shape)) {
    throw ShapeError("[make_array_from_process_local_data] the data has " +
                     std::to_string(local_data.size()) + " elements, but the shape " +
                     to_string(local_shape) + " needs " + std::to_string(num_elements(local_shape)) +
                     " (at " + CallSite::from(where).to_string() + ")");
  }
  return internal::from_process_local_data(sharding, local_data.data(), dtype_of<T>, local_shape,
                                           global_shape, CallSite::from(where));
}
template <class T>
Array make_array_from_process_local_data(const Sharding& sharding, const std::vector<T>& local_data,
                                         const Shape& local_shape,
                                         const std::optional<Shape>& global_shape = std::nullopt,
                                         std::source_location where = std::source_location::current()) {
  return make_array_from_process_local_data(sharding, std::span<const T>(local_data), local_shape,
                                            global_shape, where);
}

}  // namespace lockstep
