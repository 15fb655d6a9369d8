// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/base/call_site.h"
#include "lockstep/base/error.h"
#include "lockstep/base/function.h"

namespace lockstep {

/// x with this sharding. If each process can read the whole of x, every process that takes part passes
/// the same values and keeps its part. If x spans several processes, they exchange the parts by a
/// computation that all processes of x's mesh must launch. If the new mesh has no axes for the parts
/// of x, every process gets the whole on the way. Throws ShardingError if the mesh does not divide a
/// size.
Array device_put(const Array& x, const Sharding& sharding,
                 std::source_location where = std::source_location::current());

/// The global shape that make_array_from_process_local_data gives to local data of this shape. Same
/// errors.
Shape local_to_global_shape(const Sharding& sharding, const Shape& local_shape,
                            std::source_location where = std::source_location::current());

namespace internal {

/// See make_array_from_process_local_data; shape, dtype and data are those of the local data. The data is
/// copied if `owner` is null; otherwise the array may use the memory in place and holds the owner. With
/// `must_not_copy`, throws Error if a part is not in place.
Array from_process_local_data(const Sharding& sharding, const void* data, DType dtype, const Shape& shape,
                              const std::optional<Shape>& global_shape, const CallSite& site,
                              std::shared_ptr<const void> owner = nullptr, bool must_not_copy = false);

/// The same for the whole array.
Array put_host(const Sharding& sharding, const void* data, DType dtype, const Shape& shape,
               std::shared_ptr<const void> owner, bool must_not_copy = false);

}  // namespace internal

/// A global array from this process's part: dense, row-major, of shape `local_shape`, which is what this
/// process's devices hold together. Every process that takes part must call it. In a dimension that is split
/// over processes, the global size is the local size times the number of processes' parts, unless
/// `global_shape` gives it. If the mesh's order of devices puts others' parts between those of this process,
/// as the rings of a TPU slice do, the local data has its parts in their global order, without gaps. The data
/// is copied. Throws ShardingError if the local data does not fit the sharding, naming the dimension.
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
