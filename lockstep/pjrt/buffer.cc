// SPDX-License-Identifier: Apache-2.0
#include "lockstep/pjrt/buffer.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "lockstep/base/fail.h"
#include "lockstep/pjrt/api.h"
#include "lockstep/pjrt/ending.h"
#include "lockstep/pjrt/spare_buffers.h"

namespace lockstep::pjrt {
namespace {

std::span<const std::int64_t> dims_of(const PJRT_Api* api, PJRT_Buffer* buffer) {
  LOCKSTEP_PJRT_ARGS(PJRT_Buffer_Dimensions_Args, args);
  args.buffer = buffer;
  check(api, api->PJRT_Buffer_Dimensions(&args), "reading a buffer's shape");
  return {args.dims, args.num_dims};
}

PJRT_Event* ready_event(const PJRT_Api* api, PJRT_Buffer* buffer) {
  LOCKSTEP_PJRT_ARGS(PJRT_Buffer_ReadyEvent_Args, args);
  args.buffer = buffer;
  check(api, api->PJRT_Buffer_ReadyEvent(&args), "waiting for a buffer");
  return args.event;
}

/// The plugins' C functions count a buffer's external references in a field without a lock, so that two
/// threads that read one array would lose a count, and the buffer's end abort the process. Buffers share the
/// locks.
std::mutex& references_lock(const PJRT_Buffer* buffer) {
  static std::array<std::mutex, 64> locks;
  return locks[std::hash<const void*>()(buffer) / alignof(std::max_align_t) % locks.size()];
}

/// The plugin makes the layout at the first call, under a lock of its own, and returns a pointer into it:
/// under our lock, a thread sanitizer sees that too.
bool has_row_major_layout(const PJRT_Api* api, PJRT_Buffer* buffer) {
  std::lock_guard lock(references_lock(buffer));
  LOCKSTEP_PJRT_ARGS(PJRT_Buffer_GetMemoryLayout_Args, args);
  args.buffer = buffer;
  check(api, api->PJRT_Buffer_GetMemoryLayout(&args), "asking for a buffer's layout");
  if (args.layout.type != PJRT_Buffer_MemoryLayout_Type_Tiled || args.layout.tiled.num_tiles != 0)
    return false;
  const auto& tiled = args.layout.tiled;
  for (std::size_t i = 0; i < tiled.minor_to_major_size; ++i)
    if (tiled.minor_to_major[i] != static_cast<std::int64_t>(tiled.minor_to_major_size - 1 - i)) return false;
  return true;
}

}  // namespace

BufferHold::BufferHold(const Buffer& buffer) : api_(buffer.api_), buffer_(buffer.buffer_) {
  std::lock_guard lock(references_lock(buffer_));
  LOCKSTEP_PJRT_ARGS(PJRT_Buffer_IncreaseExternalReferenceCount_Args, args);
  args.buffer = buffer_;
  check(api_, api_->PJRT_Buffer_IncreaseExternalReferenceCount(&args), "holding a buffer's memory");
}

BufferHold::~BufferHold() {
  if (buffer_ == nullptr) return;
  std::lock_guard lock(references_lock(buffer_));
  LOCKSTEP_PJRT_ARGS(PJRT_Buffer_DecreaseExternalReferenceCount_Args, args);
  args.buffer = buffer_;
  ignore(api_, api_->PJRT_Buffer_DecreaseExternalReferenceCount(&args));
}

void Buffer::destroy() noexcept {
  if (std::atomic<int>* handles = take_handles()) {
    if (handles->fetch_sub(1, std::memory_order_acq_rel) > 1) {
      buffer_ = nullptr;
      return;
    }
    delete handles;
  }
  Spare* const spare = std::exchange(spare_, nullptr);
  if (spare != nullptr && !spare->lent.load(std::memory_order_acquire)) {
    buffer_ = nullptr;
    return spare->home->give_back(spare);
  }
  LOCKSTEP_PJRT_ARGS(PJRT_Buffer_Destroy_Args, args);
  args.buffer = buffer_;
  ignore(api_, api_->PJRT_Buffer_Destroy(&args));
  buffer_ = nullptr;
  delete spare;
}

void Buffer::keep_no_longer() const {
  if (!spare_->lent.load(std::memory_order_relaxed)) spare_->lent.store(true, std::memory_order_release);
}

Buffer Buffer::share() const {
  if (buffer_ == nullptr) return {};
  std::atomic<int>* handles = handles_.load(std::memory_order_acquire);
  if (handles == nullptr) {
    auto* fresh = new std::atomic<int>(1);
    if (handles_.compare_exchange_strong(handles, fresh, std::memory_order_acq_rel)) {
      handles = fresh;
    } else {
      delete fresh;  // another thread was first
    }
  }
  handles->fetch_add(1, std::memory_order_relaxed);
  Buffer other(api_, buffer_);
  other.handles_ = handles;
  other.spare_ = spare_;
  other.foreign_ = foreign_;
  return other;
}

bool Buffer::is_shared() const {
  const std::atomic<int>* handles = handles_.load(std::memory_order_acquire);
  return foreign_ || (handles != nullptr && handles->load(std::memory_order_acquire) > 1);
}

DType Buffer::dtype() const {
  LOCKSTEP_PJRT_ARGS(PJRT_Buffer_ElementType_Args, args);
  args.buffer = buffer_;
  check(api_, api_->PJRT_Buffer_ElementType(&args), "reading a buffer's element type");
  return from_pjrt(args.type, "a buffer");
}

std::vector<std::int64_t> Buffer::dims() const {
  const auto dims = dims_of(api_, buffer_);
  return {dims.begin(), dims.end()};
}

std::size_t Buffer::size_bytes() const { return bytes_of(dtype(), dims_of(api_, buffer_)); }

bool Buffer::ready() const {
  if (is_ready_.load(std::memory_order_acquire)) return true;
  PJRT_Event* event = ready_event(api_, buffer_);
  LOCKSTEP_PJRT_ARGS(PJRT_Event_IsReady_Args, args);
  args.event = event;
  PJRT_Error* error = api_->PJRT_Event_IsReady(&args);
  pjrt::destroy(api_, event);
  check(api_, error, "asking whether a buffer is ready");
  return args.is_ready;
}

void Buffer::await() const {
  if (is_ready_.load(std::memory_order_acquire)) return;
  await_and_destroy(api_, ready_event(api_, buffer_), "computing an array");
  is_ready_.store(true, std::memory_order_release);
}

bool Buffer::await_for(std::chrono::milliseconds timeout) const {
  if (is_ready_.load(std::memory_order_acquire)) return true;
  return Ending::of(api_, ready_event(api_, buffer_), "computing an array")->await_for(timeout);
}

void Buffer::to_host(void* destination, std::size_t bytes) const {
  if (const std::size_t size = size_bytes(); bytes != size) {
    fail<PjrtError>("[pjrt] copying an array to the host: it has {} bytes, but the destination {}", size,
                    bytes);
  }
  // The plugin treats a null destination, which an empty array may have, as a query for the size.
  if (bytes == 0) return await();
  // The CPU plugin copies on a thread of its pool, which costs more to wake than a small array to copy.
  if (const void* here = host_pointer()) {
    const BufferHold hold(*this);
    std::memcpy(destination, here, bytes);
    return;
  }
  await_and_destroy(api_, begin_copy(destination, bytes), "computing or copying an array");
}

PJRT_Event* Buffer::begin_copy(void* destination, std::size_t bytes) const {
  RowMajorLayout layout(dims_of(api_, buffer_).size(), "copying an array to the host");
  LOCKSTEP_PJRT_ARGS(PJRT_Buffer_ToHostBuffer_Args, args);
  args.src = buffer_;
  args.host_layout = layout.get();
  args.dst = destination;
  args.dst_size = bytes;
  check(api_, api_->PJRT_Buffer_ToHostBuffer(&args), "copying an array to the host");
  return args.event;
}

CopyToHost::CopyToHost(const Buffer& buffer, std::shared_ptr<void> memory)
    : memory_(std::move(memory)), size_(buffer.size_bytes()) {
  if (memory_ == nullptr) memory_ = std::make_shared_for_overwrite<char[]>(size_);
  // The plugin treats a null destination as a query for the size.
  PJRT_Event* const event =
      size_ == 0 ? ready_event(buffer.api_, buffer.buffer_) : buffer.begin_copy(memory_.get(), size_);
  ending_ = Ending::of(buffer.api_, event, "computing or copying an array", memory_);
}

bool CopyToHost::await_for(std::chrono::milliseconds timeout) const { return ending_->await_for(timeout); }

bool Buffer::is_on_cpu() const {
  LOCKSTEP_PJRT_ARGS(PJRT_Buffer_IsOnCpu_Args, args);
  args.buffer = buffer_;
  check(api_, api_->PJRT_Buffer_IsOnCpu(&args), "asking where a buffer is");
  return args.is_on_cpu;
}

bool Buffer::is_row_major() const { return has_row_major_layout(api_, buffer_); }

const void* Buffer::host_pointer() const { return is_on_cpu() ? device_pointer() : nullptr; }

void* Buffer::device_pointer() const {
  if (!is_row_major()) return nullptr;
  await();
  return unsafe_pointer();
}

void* Buffer::unsafe_pointer() const {
  if (void* const known = address_.load(std::memory_order_relaxed)) return known;
  LOCKSTEP_PJRT_ARGS(PJRT_Buffer_UnsafePointer_Args, args);
  args.buffer = buffer_;
  check(api_, api_->PJRT_Buffer_UnsafePointer(&args), "taking a buffer's address");
  auto* const address = reinterpret_cast<void*>(args.buffer_pointer);
  address_.store(address, std::memory_order_relaxed);
  return address;
}

void Buffer::delete_memory() {
  lend();
  is_ready_.store(false, std::memory_order_relaxed);
  address_.store(nullptr, std::memory_order_relaxed);
  LOCKSTEP_PJRT_ARGS(PJRT_Buffer_Delete_Args, args);
  args.buffer = buffer_;
  check(api_, api_->PJRT_Buffer_Delete(&args), "deleting a buffer");
}

bool Buffer::is_deleted() const {
  LOCKSTEP_PJRT_ARGS(PJRT_Buffer_IsDeleted_Args, args);
  args.buffer = buffer_;
  check(api_, api_->PJRT_Buffer_IsDeleted(&args), "asking whether a buffer is deleted");
  return args.is_deleted;
}

}  // namespace lockstep::pjrt
