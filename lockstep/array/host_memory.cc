// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/host_memory.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "lockstep/array/device_put.h"
#include "lockstep/array/host.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/strided_copy.h"
#include "lockstep/pjrt/buffer.h"

namespace lockstep {

namespace internal {

std::shared_ptr<void> aligned_memory(std::size_t bytes) {
  // Large memory begins at a page, so that a file can be read into it without the page cache. It does not use
  // huge pages, unlike memory from posix_memalign (collectives/allocator.h): if a virtual machine returns
  // idle memory to its host, free huge pages are those that the host must provide again.
  constexpr std::size_t kLarge = std::size_t{1} << 20, kPage = 4096;
  void* memory = nullptr;
  if (bytes >= kLarge)
    memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  else if (posix_memalign(&memory, HostMemory::kAlignment, std::max(bytes, HostMemory::kAlignment)) != 0)
    memory = nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return {memory, std::free};
}

void check_in_place(std::string_view what, const pjrt::Buffer& buffer, const void* source, Device device) {
  const void* place = buffer.host_pointer();
  if (place == source || buffer.size_bytes() == 0) return;
  const auto behind = reinterpret_cast<std::uintptr_t>(source) % HostMemory::kAlignment;
  fail(
      "{} the elements would be copied: {} {} (at {}); {}allow the copy with HostCopy::kIfNeeded", what,
      place == nullptr ? fmt::format("the host cannot read the memory of {}", device.to_string())
                       : fmt::format("those of {} begin", device.to_string()),
      place == nullptr ? "" : fmt::format("{} bytes behind a multiple of {}", behind, HostMemory::kAlignment),
      CallSiteScope::current().to_string(),
      place == nullptr ? "" : "make the memory with HostMemory::allocate, or ");
}

}  // namespace internal

HostMemory::HostMemory(const void* data, std::size_t count, DType dtype, Shape shape,
                       std::shared_ptr<const void> owner)
    : data_(data), dtype_(dtype), shape_(std::move(shape)), owner_(std::move(owner)) {
  if (std::ranges::any_of(shape_, [](std::int64_t size) { return size < 0; }) ||
      num_elements(shape_) != static_cast<std::int64_t>(count)) {
    fail<ShapeError>("[HostMemory] {} elements do not fill shape {}", count, to_string(shape_));
  }
}

HostMemory::HostMemory(const HostView& view, std::shared_ptr<const void> owner, HostCopy copy,
                       std::source_location where)
    : data_(view.data()), dtype_(view.dtype()), shape_(view.shape()), owner_(std::move(owner)), copy_(copy) {
  if (view.is_row_major()) return;
  if (copy == HostCopy::kMustNotCopy) {
    fail(
        "[HostMemory] the elements would be copied: strides [{}] are not those of row-major elements of "
        "shape {} (at {}); allow the copy with HostCopy::kIfNeeded",
        fmt::join(view.strides(), ", "), to_string(shape_), CallSite::from(where).to_string());
  }
  const std::size_t element = size_of(dtype_);
  const std::shared_ptr<void> rows =
      internal::aligned_memory(static_cast<std::size_t>(num_elements(shape_)) * element);
  internal::copy_strided(rows.get(), data_, element, shape_, view.strides());
  data_ = rows.get();
  owner_ = rows;
}

bool HostMemory::is_used_by(const Array& x, std::source_location where) const {
  const auto* begin = static_cast<const char*>(data_);
  const auto* end = begin + static_cast<std::size_t>(num_elements(shape_)) * size_of(dtype_);
  return std::ranges::all_of(x.addressable_shards(where), [&](const Shard& shard) {
    const auto* part = static_cast<const char*>(shard.data);
    return std::less_equal<>()(begin, part) && std::less<>()(part, end);
  });
}

HostMemory HostMemory::allocate(DType dtype, Shape shape) {
  if (std::ranges::any_of(shape, [](std::int64_t size) { return size < 0; }))
    fail<ShapeError>("[HostMemory] expected sizes of at least 0, got shape {}", to_string(shape));
  const auto count = static_cast<std::size_t>(num_elements(shape));
  std::shared_ptr<void> memory = internal::aligned_memory(count * size_of(dtype));
  HostMemory made(memory.get(), count, dtype, std::move(shape), memory);
  made.writable_ = true;
  return made;
}

void* HostMemory::writable(DType dtype) const {
  if (dtype != dtype_ && !(dtype_ == DType::kBool && dtype == DType::kU8)) {
    fail<DTypeError>("[HostMemory] the elements are {}, and cannot be written as {}", name(dtype_),
                     name(dtype));
  }
  if (!writable_)
    fail(
        "[HostMemory] this memory belongs to another owner: only memory of HostMemory::allocate can be "
        "written");
  return const_cast<void*>(data_);
}

Array array(HostMemory memory, std::source_location where) {
  CallSiteScope scope(CallSite::from(where));
  return internal::array_from_host(memory.data(), memory.dtype(), memory.shape(), false, memory.owner(),
                                   memory.copy() == HostCopy::kMustNotCopy);
}

Array device_put(HostMemory memory, const Sharding& sharding, std::source_location where) {
  CallSiteScope scope(CallSite::from(where));
  return internal::put_host(sharding, memory.data(), memory.dtype(), memory.shape(), memory.owner(),
                            memory.copy() == HostCopy::kMustNotCopy);
}

Array make_array_from_process_local_data(const Sharding& sharding, HostMemory local_data,
                                         const std::optional<Shape>& global_shape,
                                         std::source_location where) {
  return internal::from_process_local_data(sharding, local_data.data(), local_data.dtype(),
                                           local_data.shape(), global_shape, CallSite::from(where),
                                           local_data.owner(), local_data.copy() == HostCopy::kMustNotCopy);
}

}  // namespace lockstep
