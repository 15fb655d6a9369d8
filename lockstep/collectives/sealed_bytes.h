#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "lockstep/collectives/file_descriptor.h"

namespace lockstep::collectives {

/// Bytes in memory that nobody can change any more, not even the process that made it (a sealed memfd): who
/// has checked them once can rely on them. Other processes can be given its descriptor.
class SealedBytes {
 public:
  /// Throws Error where the system gives no memory or no descriptor.
  static std::shared_ptr<const SealedBytes> copy_of(std::string_view bytes);

  /// What another process has made. Throws Error where it could still change it, or it cannot be mapped.
  static std::shared_ptr<const SealedBytes> open(FileDescriptor memory);

  ~SealedBytes();
  SealedBytes(const SealedBytes&) = delete;
  SealedBytes& operator=(const SealedBytes&) = delete;

  std::string_view view() const { return {data_, size_}; }
  int descriptor() const { return memory_.get(); }

  /// So many bytes on their way to be SealedBytes, written from the first on.
  class Writer {
   public:
    /// Throws as copy_of.
    explicit Writer(std::size_t size);

    std::size_t size() const { return size_; }
    std::size_t written() const { return written_; }

    /// Throws Error where they are more than `size`, or the system has no memory.
    void append(std::string_view bytes);

    /// Once all are written.
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
