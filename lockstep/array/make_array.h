// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/base/call_site.h"
#include "lockstep/base/error.h"
#include "lockstep/base/function.h"

namespace lockstep {

namespace internal {

/// Returns the dense row-major data of one part.
using PartData = std::function<const void*(const std::vector<IndexRange>& index, std::size_t elements)>;

Array from_callback(const Shape& shape, const Sharding& sharding, DType dtype, const PartData& data,
                    const CallSite& site);

}  // namespace internal

/// A global array of this shape whose parts come from `callback`. It is called with the ranges of each part
/// that a device of this process holds, once if several devices hold the part, and returns the elements,
/// row-major. The data is copied. Every process that takes part must call this. Throws ShapeError if the
/// callback returns another number of elements, ShardingError if the mesh does not divide the shape.
///   make_array_from_callback<float>({1000, 8}, rows, [&](const std::vector<IndexRange>& index) { ... })
template <class T, class Callback>
Array make_array_from_callback(const Shape& shape, const Sharding& sharding, Callback&& callback,
                               std::source_location where = std::source_location::current()) {
  std::vector<T> part;
  return internal::from_callback(
      shape, sharding, dtype_of<T>,
      [&](const std::vector<IndexRange>& index, std::size_t elements) -> const void* {
        part = callback(index);
        if (part.size() != elements) {
          throw ShapeError("[make_array_from_callback] the callback gave " + std::to_string(part.size()) +
                           " elements for a part of " + std::to_string(elements) + " (at " +
                           CallSite::from(where).to_string() + ")");
        }
        return part.data();
      },
      CallSite::from(where));
}

/// A global array from parts that are arrays: one on each device of this process that the sharding
/// includes, in any order, each with the shape of a part. They share their memory with the new array, so a
/// computation does not reuse the memory of one that is donated while another exists. Every process that
/// takes part must call this with its own parts; one without a device in the sharding passes none, and the
/// dtype. Throws ShardingError if a device has no array or two, or an array is on a device outside of the
/// sharding, DTypeError for no array and no dtype, and ShapeError if a shape or dtype does not fit, naming
/// the array.
Array make_array_from_single_device_arrays(const Shape& shape, const Sharding& sharding,
                                           const std::vector<Array>& arrays,
                                           std::optional<DType> dtype = std::nullopt,
                                           std::source_location where = std::source_location::current());

/// An array without elements: a shape, a dtype and a sharding, like JAX's ShapeDtypeStruct. A jitted function
/// can be lowered and compiled for it; reading it, or running a computation on it, throws DescribedError.
///   step.lower(shape_of({4096, 512}, float32, rows)).cost()
Array shape_of(const Shape& shape, DType dtype, const Sharding& sharding,
               std::source_location where = std::source_location::current());

/// The shape, dtype and sharding of another array. Throws Error for an array that was deleted.
Array shape_of(const Array& array, std::source_location where = std::source_location::current());

}  // namespace lockstep
