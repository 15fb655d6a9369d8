// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/base/dtype.h"

struct PJRT_Api;
struct PJRT_Buffer;
struct PJRT_Event;

namespace lockstep::pjrt {

class Ending;
struct Spare;

/// An array in the memory of one device; this object owns it. It must be destroyed before its Client.
///
/// The content may not be ready yet. If the computation that makes it fails, reading or awaiting the buffer
/// throws the error. All functions except moves may be called from any thread. All throw PjrtError if the
/// plugin returns an error.
class Buffer {
 public:
  /// No buffer.
  Buffer() = default;

  /// Takes ownership of a buffer of the plugin.
  Buffer(const PJRT_Api* api, PJRT_Buffer* buffer) : api_(api), buffer_(buffer) {}

  Buffer(Buffer&& other) noexcept { take(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  ~Buffer() { reset(); }

  /// Another handle to the same buffer. The buffer is freed with its last handle.
  Buffer share() const;

  /// Whether there are other handles to the buffer, or another library owns its memory; it then must not be
  /// donated.
  bool is_shared() const;

  explicit operator bool() const { return buffer_ != nullptr; }

  /// The plugin's buffer, for the plugin's functions, which may use it for longer than this object lives.
  PJRT_Buffer* get() const {
    lend();
    return buffer_;
  }

  /// Releases this handle, which becomes empty. The last handle frees the buffer, after the computations that
  /// use it. Never throws.
  void reset() noexcept {
    if (buffer_ != nullptr) destroy();
  }

  DType dtype() const;
  std::vector<std::int64_t> dims() const;

  /// The bytes of its elements, without padding.
  std::size_t size_bytes() const;

  /// Whether the content is ready or has failed. Does not block.
  bool ready() const;

  /// Blocks until the content is ready. Throws the error of the computation that makes it.
  void await() const;

  /// As await(), but blocks for at most the timeout; returns whether the content is ready.
  bool await_for(std::chrono::milliseconds timeout) const;

  /// Whether it is in memory that the host can read. Does not block.
  bool is_on_cpu() const;

  /// Whether its elements are dense and row-major on the device. Does not block.
  bool is_row_major() const;

  /// Copies the content to `bytes` bytes at `destination`, dense and row-major, whatever the layout on the
  /// device. Blocks until done. Throws as `await()` does, and unless `bytes` is `size_bytes()`.
  void to_host(void* destination, std::size_t bytes) const;

  /// The address of its elements, dense and row-major, if the host can read them in place, as on CPU;
  /// otherwise null, and `to_host` must be used. Blocks and throws as `await()` does. Valid as long as
  /// `unsafe_pointer()` is.
  const void* host_pointer() const;

  /// The address of its elements in the device's memory; null if they are not dense and row-major there.
  /// Blocks and throws as `await()` does. Valid as long as `unsafe_pointer()` is.
  void* device_pointer() const;

  /// The address of its elements in the device's memory, in the device's layout. Valid until this buffer is
  /// reset, deleted or donated; the content is ready after `await()`.
  void* unsafe_pointer() const;

  /// Frees the memory now. This object stays, and `is_deleted()` becomes true.
  void delete_memory();

  /// Whether its memory was freed by `delete_memory()` or donated to an execution.
  bool is_deleted() const;

 private:
  friend class BufferHold;
  friend class Client;
  friend class CopyToHost;
  friend class SpareBuffers;

  /// Begins to copy the content, dense and row-major.
  PJRT_Event* begin_copy(void* destination, std::size_t bytes) const;

  void destroy() noexcept;
  void take(Buffer& other) noexcept {
    api_ = other.api_;
    buffer_ = std::exchange(other.buffer_, nullptr);
    handles_.store(other.take_handles(), std::memory_order_relaxed);
    spare_ = std::exchange(other.spare_, nullptr);
    foreign_ = other.foreign_;
    is_ready_.store(other.is_ready_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    address_.store(other.address_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  std::atomic<int>* take_handles() noexcept {
    std::atomic<int>* handles = handles_.load(std::memory_order_relaxed);
    handles_.store(nullptr, std::memory_order_relaxed);
    return handles;
  }

  const PJRT_Api* api_ = nullptr;
  PJRT_Buffer* buffer_ = nullptr;
  mutable std::atomic<std::atomic<int>*> handles_ = nullptr;  ///< the number of handles; null: this is the
                                                              ///< only one

  /// From now on others know the buffer, so that its last handle destroys it.
  void lend() const {
    if (spare_ != nullptr) keep_no_longer();
  }
  void keep_no_longer() const;

  Spare* spare_ = nullptr;  ///< if its last handle may keep it for another result (spare_buffers.h)

  bool foreign_ = false;  ///< another library owns its memory

  // Earlier answers of the plugin: to ask it again takes a tenth of a microsecond.
  mutable std::atomic<bool> is_ready_ = false;
  mutable std::atomic<void*> address_ = nullptr;
};

/// A copy of a buffer's content in host memory, dense and row-major, that is made while the program goes on.
/// The buffer may be reset, deleted or donated meanwhile, and this object may go.
class CopyToHost {
 public:
  /// Begins the copy, once the content is computed. Does not block. `memory` has room for it; null: it is
  /// allocated.
  explicit CopyToHost(const Buffer& buffer, std::shared_ptr<void> memory = nullptr);

  /// Blocks for at most the timeout; whether it is done. Throws the error of the computation or of the copy.
  bool await_for(std::chrono::milliseconds timeout) const;

  /// The elements, once it is done.
  const char* data() const { return static_cast<const char*>(memory_.get()); }
  std::size_t size() const { return size_; }

 private:
  std::shared_ptr<void> memory_;
  std::size_t size_;
  std::shared_ptr<const Ending> ending_;
};

/// While it exists, the buffer's memory stays, whatever other threads do to the buffer. The buffer itself
/// must outlive it. Throws PjrtError if the buffer was deleted or donated.
class BufferHold {
 public:
  explicit BufferHold(const Buffer& buffer);
  ~BufferHold();
  BufferHold(BufferHold&& other) noexcept
      : api_(other.api_), buffer_(std::exchange(other.buffer_, nullptr)) {}
  BufferHold& operator=(BufferHold&&) = delete;

 private:
  const PJRT_Api* api_;
  PJRT_Buffer* buffer_;
};

}  // namespace lockstep::pjrt
