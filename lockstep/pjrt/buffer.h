#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "lockstep/base/dtype.h"

struct PJRT_Api;
struct PJRT_Buffer;

namespace lockstep::pjrt {

/// An array in the memory of one device; this object owns it. It must be gone before its Client.
///
/// Its content may still be on its way: a computation that failed shows here, when it is read or awaited.
/// Functions other than moves may be called from any thread. All throw PjrtError where the plugin refuses.
class Buffer {
 public:
  /// No buffer.
  Buffer() = default;

  /// Takes a buffer over from the plugin.
  Buffer(const PJRT_Api* api, PJRT_Buffer* buffer) : api_(api), buffer_(buffer) {}

  Buffer(Buffer&& other) noexcept
      : api_(other.api_), buffer_(std::exchange(other.buffer_, nullptr)), handles_(other.take_handles()) {}
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      reset();
      api_ = other.api_;
      buffer_ = std::exchange(other.buffer_, nullptr);
      handles_.store(other.take_handles(), std::memory_order_relaxed);
    }
    return *this;
  }
  ~Buffer() { reset(); }

  /// Another handle to the same buffer, which is freed with the last of them.
  Buffer share() const;

  /// Whether there is another handle to the buffer, so that it must not be donated.
  bool is_shared() const;

  explicit operator bool() const { return buffer_ != nullptr; }
  PJRT_Buffer* get() const { return buffer_; }

  /// Frees the buffer (once computations that use it are done), where this is its last handle, and leaves
  /// none. Never throws.
  void reset() noexcept {
    if (buffer_ != nullptr) destroy();
  }

  DType dtype() const;
  std::vector<std::int64_t> dims() const;

  /// The bytes of its elements, dense.
  std::size_t size_bytes() const;

  /// Whether its content is there, or has failed. Does not block.
  bool ready() const;

  /// Blocks until its content is there. Throws the error of the computation that should have made it.
  void await() const;

  /// The same for at most the timeout; gives whether it is there.
  bool await_for(std::chrono::milliseconds timeout) const;

  /// Copies the content to `bytes` bytes at `destination`, dense and row-major, whatever its layout on the
  /// device. Blocks until done. Throws as `await()` does, and where `bytes` is not `size_bytes()`.
  void to_host(void* destination, std::size_t bytes) const;

  /// Where its elements lie, dense and row-major, if the host can read them there, as on CPU; otherwise null,
  /// and `to_host` copies. Blocks and throws as `await()` does. Valid as `unsafe_pointer()` is.
  const void* host_pointer() const;

  /// Where its elements lie in the device's memory, in the device's layout. Valid while this buffer is
  /// neither reset, deleted nor donated; the content is there after `await()`.
  void* unsafe_pointer() const;

  /// Gives the memory back now, while this object stays and says `is_deleted()`.
  void delete_memory();

  /// Whether its memory was given back, by `delete_memory()` or by being donated to an execution.
  bool is_deleted() const;

 private:
  void destroy() noexcept;
  std::atomic<int>* take_handles() noexcept {
    std::atomic<int>* handles = handles_.load(std::memory_order_relaxed);
    handles_.store(nullptr, std::memory_order_relaxed);
    return handles;
  }

  const PJRT_Api* api_ = nullptr;
  PJRT_Buffer* buffer_ = nullptr;
  mutable std::atomic<std::atomic<int>*> handles_ = nullptr;  ///< how many there are; null: this one only
};

}  // namespace lockstep::pjrt
