// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/host_view.h"

#include <algorithm>

#include "lockstep/array/device_put.h"
#include "lockstep/array/host.h"
#include "lockstep/array/strided_copy.h"
#include "lockstep/base/fail.h"

namespace lockstep {

namespace internal {

std::vector<std::int64_t> row_major_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

std::shared_ptr<const void> row_major_copy(const HostView& view) {
  const std::size_t element = size_of(view.dtype());
  std::shared_ptr<void> copy = aligned_memory(static_cast<std::size_t>(num_elements(view.shape())) * element);
  copy_strided(copy.get(), view.data(), element, view.shape(), view.strides());
  return copy;
}

}  // namespace internal

HostView::HostView(const void* data, DType dtype, Shape shape, const std::vector<std::int64_t>* strides,
                   const CallSite& site)
    : data_(data), dtype_(dtype), shape_(std::move(shape)) {
  if (std::ranges::any_of(shape_, [](std::int64_t size) { return size < 0; }))
    fail<ShapeError>("[HostView] expected sizes of at least 0, got shape {} (at {})", to_string(shape_),
                     site.to_string());
  if (strides != nullptr && strides->size() != shape_.size())
    fail<ShapeError>("[HostView] expected a stride for each dimension of shape {}, got {} (at {})",
                     to_string(shape_), strides->size(), site.to_string());
  strides_ = strides != nullptr ? *strides : internal::row_major_strides(shape_);
}

std::vector<std::int64_t> HostView::column_major_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = 1; d < shape.size(); ++d) strides[d] = strides[d - 1] * shape[d - 1];
  return strides;
}

bool HostView::is_row_major() const { return internal::is_row_major(shape_, strides_); }

void HostView::check_count(std::size_t count, const CallSite& site) const {
  if (num_elements(shape_) != static_cast<std::int64_t>(count))
    fail<ShapeError>("[HostView] {} elements do not fill shape {} (at {})", count, to_string(shape_),
                     site.to_string());
}

Array array(const HostView& view, std::source_location where) {
  CallSiteScope scope(CallSite::from(where));
  if (view.is_row_major()) return internal::array_from_host(view.data(), view.dtype(), view.shape());
  const std::shared_ptr<const void> copy = internal::row_major_copy(view);
  return internal::array_from_host(copy.get(), view.dtype(), view.shape(), false, copy);
}

Array device_put(const HostView& view, const Sharding& sharding, std::source_location where) {
  CallSiteScope scope(CallSite::from(where));
  if (view.is_row_major())
    return internal::put_host(sharding, view.data(), view.dtype(), view.shape(), nullptr);
  const std::shared_ptr<const void> copy = internal::row_major_copy(view);
  return internal::put_host(sharding, copy.get(), view.dtype(), view.shape(), copy);
}

}  // namespace lockstep
