// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/host_view.h"

#include <algorithm>

#include "lockstep/array/host_memory.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/strided_copy.h"

namespace lockstep {

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

bool HostView::is_row_major() const { return internal::is_row_major(shape_, strides_); }

void HostView::check_count(std::size_t count, const CallSite& site) const {
  if (num_elements(shape_) != static_cast<std::int64_t>(count))
    fail<ShapeError>("[HostView] {} elements do not fill shape {} (at {})", count, to_string(shape_),
                     site.to_string());
}

Array array(const HostView& view, std::source_location where) {
  return array(HostMemory(view, /*owner=*/nullptr, HostCopy::kIfNeeded, where), where);
}

Array device_put(const HostView& view, const Sharding& sharding, std::source_location where) {
  return device_put(HostMemory(view, /*owner=*/nullptr, HostCopy::kIfNeeded, where), sharding, where);
}

}  // namespace lockstep
