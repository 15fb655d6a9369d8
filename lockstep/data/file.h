// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/fingerprint.h"
#include "lockstep/storage/store.h"

namespace lockstep::data::internal {

/// A file that a format reads. Thread-safe. Every error is a DataError that begins with the operation and
/// names the file.
class File {
 public:
  /// Opens the file; throws if it cannot be read.
  File(std::string operation, const std::string& url);

  /// A file that is already open.
  File(std::string operation, std::unique_ptr<storage::Reader> reader)
      : operation_(std::move(operation)), reader_(std::move(reader)) {}

  const std::string& operation() const { return operation_; }
  const std::string& url() const { return reader_->url(); }
  std::uint64_t size() const { return reader_->size(); }

  /// Fills `into` with the bytes from `offset` on. If the file ends before, throws without reading.
  void read(std::uint64_t offset, std::span<std::byte> into) const;

  /// `count` bytes; allocates nothing if the file does not have them.
  std::vector<std::byte> bytes(std::uint64_t offset, std::uint64_t count) const;
  std::string text(std::uint64_t offset, std::uint64_t count) const;

  template <class T>
  T number(std::uint64_t offset) const {
    T value;
    read(offset, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

  /// Releases the open file; afterwards nothing may be read from this object.
  std::unique_ptr<storage::Reader> release() { return std::move(reader_); }

  /// A fingerprint of the size and of 4096 bytes each at the start, in the middle and at the end.
  Fingerprint fingerprint() const;

  /// Throws "[operation] FILE at byte OFFSET: WHAT".
  [[noreturn]] void damaged(std::uint64_t offset, const std::string& what) const;

 private:
  void check(std::uint64_t offset, std::uint64_t count) const;

  std::string operation_;
  std::unique_ptr<storage::Reader> reader_;
};

/// Reads a file, or parts of it, sequentially in large blocks.
class Scan {
 public:
  explicit Scan(const File& file, std::size_t block = std::size_t{8} << 20);

  std::uint64_t offset() const { return offset_; }
  std::uint64_t left() const { return file_.size() - offset_; }

  /// The next bytes: at least one and at most `count`; empty at the end. Valid until the next call.
  std::string_view next(std::size_t count);

  /// Exactly the next `count` bytes, at most a block. Throws if the file ends before.
  std::string_view exactly(std::size_t count);

  /// Skips this number of bytes. Throws if the file ends before.
  void skip(std::uint64_t count);

 private:
  void fill(std::size_t wanted);

  const File& file_;
  std::size_t block_;
  std::vector<std::byte> buffer_;
  std::uint64_t buffer_offset_ = 0, offset_ = 0;
  std::size_t filled_ = 0;
};

/// Throws a DataError for what storage::locate refuses. For functions that open several files by one URL.
void check_url(std::string_view operation, std::string_view url);

/// a * b; false if it does not fit.
inline bool multiply(std::uint64_t a, std::uint64_t b, std::uint64_t* product) {
  return !__builtin_mul_overflow(a, b, product);
}

/// Throws "[operation] NAME has no record I: it has N" if i is out of range.
void check_record(std::string_view operation, std::string_view name, std::uint64_t i, std::uint64_t size);

}  // namespace lockstep::data::internal
