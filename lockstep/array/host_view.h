// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/base/call_site.h"
#include "lockstep/base/strides.h"

namespace lockstep {

/// A C++ number that has a dtype, real or complex.
template <class T>
concept HostElement = std::is_arithmetic_v<T> || ComplexOf<T, float> || ComplexOf<T, double>;

/// A vector, span, std::array or the like of elements that have a dtype.
template <class R>
concept ContiguousElements = requires(const R& values) {
  { values.size() } -> std::convertible_to<std::size_t>;
  requires std::is_pointer_v<decltype(values.data())>;
  requires HostElement<std::remove_cvref_t<decltype(*values.data())>>;
};

/// Elements in the caller's memory, which it does not own, with a shape and strides. Arrays made from it have
/// a copy of the elements. Each constructor throws ShapeError for a negative size, and if the number of
/// elements or of strides does not fit the shape.
class HostView {
 public:
  /// Dense row-major elements.
  template <class T>
  HostView(const T* data, Shape shape, std::source_location where = std::source_location::current())
      : HostView(data, dtype_of<T>, std::move(shape), nullptr, CallSite::from(where)) {}

  /// Elements at strides: the element at index [i, j] is data[i * strides[0] + j * strides[1]]. A stride
  /// counts elements, not bytes, and may be 0 or negative.
  template <class T>
  HostView(const T* data, Shape shape, const std::vector<std::int64_t>& strides,
           std::source_location where = std::source_location::current())
      : HostView(data, dtype_of<T>, std::move(shape), &strides, CallSite::from(where)) {}

  /// The elements of a vector, span or std::array in row-major order; without a shape a vector of them.
  template <ContiguousElements R>
  HostView(const R& values, std::source_location where = std::source_location::current())
      : HostView(values, Shape{static_cast<std::int64_t>(values.size())}, where) {}
  template <ContiguousElements R>
  HostView(const R& values, Shape shape, std::source_location where = std::source_location::current())
      : HostView(values.data(), dtype_of<std::remove_cvref_t<decltype(*values.data())>>, std::move(shape),
                 nullptr, CallSite::from(where)) {
    check_count(values.size(), CallSite::from(where));
  }

  /// Dense column-major elements, as Eigen and LAPACK have them: the first index is the fastest.
  template <class T>
  static HostView column_major(const T* data, Shape shape,
                               std::source_location where = std::source_location::current()) {
    std::vector<std::int64_t> strides = internal::column_major_strides(shape);
    return {data, std::move(shape), strides, where};
  }

  /// Elements of a dtype that C++ has no type for. Without strides they are row-major.
  HostView(const void* data, DType dtype, Shape shape, const std::vector<std::int64_t>* strides,
           const CallSite& site);

  const void* data() const { return data_; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  const std::vector<std::int64_t>& strides() const { return strides_; }

  /// Whether the elements are dense and row-major.
  bool is_row_major() const;

 private:
  void check_count(std::size_t count, const CallSite& site) const;

  const void* data_;
  DType dtype_;
  Shape shape_;
  std::vector<std::int64_t> strides_;
};

/// An array of a copy of the elements on this process's first device.
Array array(const HostView& view, std::source_location where = std::source_location::current());

/// The whole array, the same on every process that takes part; each copies its parts. Throws ShardingError if
/// the mesh does not divide a size.
///     device_put(HostView(values, {rows, columns}), sharding)
Array device_put(const HostView& view, const Sharding& sharding,
                 std::source_location where = std::source_location::current());

}  // namespace lockstep
