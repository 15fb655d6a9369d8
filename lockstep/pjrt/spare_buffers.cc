// SPDX-License-Identifier: Apache-2.0
#include "lockstep/pjrt/spare_buffers.h"

#include <algorithm>
#include <array>
#include <utility>

#include "lockstep/pjrt/api.h"

namespace lockstep::pjrt {
namespace {

void destroy_spare(const PJRT_Api* api, Spare* spare) noexcept {
  LOCKSTEP_PJRT_ARGS(PJRT_Buffer_Destroy_Args, args);
  args.buffer = spare->buffer;
  ignore(api, api->PJRT_Buffer_Destroy(&args));
  delete spare;
}

}  // namespace

SpareBuffers::~SpareBuffers() {
  for (Spare* spare : kept_) destroy_spare(api_, spare);
}

Buffer SpareBuffers::take(DType dtype, std::span<const std::int64_t> dims, const Device& device) {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = kept_.size(); i-- > 0;) {
    Spare* const spare = kept_[i];
    if (spare->device != &device || spare->dtype != dtype || !std::ranges::equal(spare->dims, dims)) continue;
    kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
    bytes_ -= spare->bytes;
    return handle(spare);
  }
  return {};
}

Buffer SpareBuffers::own(Buffer made, DType dtype, std::span<const std::int64_t> dims, const Device& device) {
  const std::size_t bytes = bytes_of(dtype, dims);
  if (bytes > kLargest) return made;
  void* const address = made.unsafe_pointer();
  auto* const spare = new Spare{
      .home = this,
      .buffer = made.buffer_,
      .address = address,
      .device = &device,
      .dtype = dtype,
      .dims = {dims.begin(), dims.end()},
      .bytes = bytes,
  };
  made.buffer_ = nullptr;
  return handle(spare);
}

Buffer SpareBuffers::handle(Spare* spare) const {
  Buffer buffer(api_, spare->buffer);
  buffer.spare_ = spare;
  buffer.address_.store(spare->address, std::memory_order_relaxed);
  buffer.is_ready_.store(true, std::memory_order_relaxed);
  return buffer;
}

void SpareBuffers::give_back(Spare* spare) noexcept {
  std::array<Spare*, kMostBuffers + 1> beyond;
  std::size_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    if (kept_.capacity() == 0) kept_.reserve(kMostBuffers + 1);
    kept_.push_back(spare);
    bytes_ += spare->bytes;
    while (kept_.size() - count > kMostBuffers || bytes_ > kMostBytes) {
      bytes_ -= kept_[count]->bytes;
      beyond[count] = kept_[count];
      ++count;
    }
    kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(count));
  }
  for (std::size_t i = 0; i < count; ++i) destroy_spare(api_, beyond[i]);
}

}  // namespace lockstep::pjrt
