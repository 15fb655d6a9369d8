// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "lockstep/base/dtype.h"
#include "lockstep/pjrt/buffer.h"

struct PJRT_Api;
struct PJRT_Buffer;

namespace lockstep::pjrt {

class Device;
class SpareBuffers;

/// A buffer that may serve several results, one after the other.
struct Spare {
  SpareBuffers* home;
  PJRT_Buffer* buffer;
  void* address;
  const Device* device;
  DType dtype;
  std::vector<std::int64_t> dims;
  std::size_t bytes;
  std::atomic<bool> lent = false;  ///< the plugin's functions may use it, so it serves no other result
};

/// Buffers whose results nobody has any more, for the next results of the same shapes: making and destroying
/// a buffer in the plugin takes longer than a small collective. All methods may be called from any thread.
class SpareBuffers {
 public:
  static constexpr std::size_t kMostBuffers = 16;         ///< are kept
  static constexpr std::size_t kMostBytes = 4 << 20;      ///< are kept, in all
  static constexpr std::size_t kLargest = (1 << 20) - 1;  ///< bytes of a buffer; the memory of larger ones is
                                                          ///< kept by its allocator

  explicit SpareBuffers(const PJRT_Api* api) : api_(api) {}
  ~SpareBuffers();
  SpareBuffers(const SpareBuffers&) = delete;
  SpareBuffers& operator=(const SpareBuffers&) = delete;

  /// A kept buffer of this kind, or none.
  Buffer take(DType dtype, std::span<const std::int64_t> dims, const Device& device);

  /// The same buffer, which comes back here when its last handle is released, unless it is lent before. It is
  /// ready.
  Buffer own(Buffer made, DType dtype, std::span<const std::int64_t> dims, const Device& device);

  /// Keeps it, and destroys the oldest ones beyond the limits.
  void give_back(Spare* spare) noexcept;

 private:
  Buffer handle(Spare* spare) const;

  const PJRT_Api* api_;
  std::mutex mutex_;
  std::vector<Spare*> kept_;  ///< the newest is the last
  std::size_t bytes_ = 0;
};

}  // namespace lockstep::pjrt
