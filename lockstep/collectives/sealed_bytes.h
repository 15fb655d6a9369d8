// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "lockstep/base/file_descriptor.h"

namespace lockstep::collectives {

/// Bytes in memory that cannot be changed any more, not even by the process that made it (a sealed memfd). So
/// a process that has checked them once can rely on them. The descriptor can be sent to other processes.
class SealedBytes {
 public:
  /// Throws Error if the system provides no memory or no descriptor.
  static std::shared_ptr<const SealedBytes> copy_of(std::string_view bytes);

  /// Memory that another process has made. Throws Error if it could still be changed, or cannot be mapped.
  static std::shared_ptr<const SealedBytes> open(FileDescriptor memory);

  ~SealedBytes();
  SealedBytes(const SealedBytes&) = delete;
  SealedBytes& operator=(const SealedBytes&) = delete;

  std::string_view view() const { return {data_, size_}; }
  int descriptor() const { return memory_.get(); }

  /// Writes this number of bytes in order, to make SealedBytes of them.
  class Writer {
   public:
    /// Throws as copy_of does.
    explicit Writer(std::size_t size);

    std::size_t size() const { return size_; }
    std::size_t written() const { return written_; }

    /// Throws Error if there are more than `size`, or the system has no memory.
    void append(std::string_view bytes);

    /// Call it when all bytes are written.
    std::shared_ptr<const SealedBytes> seal();

   private:
    FileDescriptor memory_;
    std::size_t size_, written_ = 0;
  };

 private:
  explicit SealedBytes(FileDescriptor memory);

  FileDescriptor memory_;
  const char* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace lockstep::collectives
