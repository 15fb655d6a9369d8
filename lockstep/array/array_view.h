// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/array/host_view.h"

namespace lockstep {

namespace internal {

struct Elements {
  const void* data;
  std::shared_ptr<const void> keeper;  ///< keeps the elements, also if the array is deleted or donated
};

/// The elements of x, in place. Blocks and throws as Array::span, with `what` in front.
Elements elements_in_place(const Array& x, std::string_view what, DType dtype);

[[noreturn]] void fail_view_rank(std::size_t indices, const Shape& shape);

}  // namespace internal

/// The elements of an array in place, with its shape and strides: x.view<float>()(i, j). It keeps them: until
/// it is gone they do not change, even if the array is deleted, or donated to a computation, which then
/// writes its result elsewhere. Give data() and the sizes to std::mdspan, an Eigen map, or another library's
/// view.
template <class T>
class ArrayView {
 public:
  using element_type = const T;
  using value_type = T;

  /// Blocks and throws as Array::span.
  explicit ArrayView(const Array& x, std::source_location where = std::source_location::current()) {
    CallSiteScope scope(CallSite::from(where));
    elements_ = internal::elements_in_place(x, "[view]", dtype_of<T>);
    shape_ = x.shape();
    strides_ = internal::row_major_strides(shape_);
    size_ = static_cast<std::size_t>(x.size());
  }

  const T* data() const { return static_cast<const T*>(elements_.data); }
  std::size_t size() const { return size_; }
  const Shape& shape() const { return shape_; }
  const std::vector<std::int64_t>& strides() const { return strides_; }  ///< in elements: row-major
  std::span<const T> span() const { return {data(), size_}; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }

  /// The element at the indices, of which there must be one for each dimension (ShapeError otherwise); each
  /// must be within its dimension, which is not checked.
  template <class... Indices>
  const T& operator()(Indices... indices) const {
    if (sizeof...(indices) != shape_.size()) internal::fail_view_rank(sizeof...(indices), shape_);
    std::int64_t offset = 0;
    std::size_t d = 0;
    ((offset += static_cast<std::int64_t>(indices) * strides_[d++]), ...);
    return data()[offset];
  }

 private:
  internal::Elements elements_;
  Shape shape_;
  std::vector<std::int64_t> strides_;
  std::size_t size_;
};

template <class T>
ArrayView<T> Array::view(std::source_location where) const {
  return ArrayView<T>(*this, where);
}

}  // namespace lockstep
