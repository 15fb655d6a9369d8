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

/// A file that is read by a format. May be used by several threads at a time. Every error is a DataError that
/// begins with the operation and names the file.
class File {
 public:
  /// Opens it; throws where it cannot be read.
  File(std::string operation, const std::string& url);

  /// One that is open already.
  File(std::string operation, std::unique_ptr<storage::Reader> reader)
      : operation_(std::move(operation)), reader_(std::move(reader)) {}

  const std::string& operation() const { return operation_; }
  const std::string& url() const { return reader_->url(); }
  std::uint64_t size() const { return reader_->size(); }

  /// Fills `into` with the bytes from `offset` on. Throws if the file ends before, without reading.
  void read(std::uint64_t offset, std::span<std::byte> into) const;

  /// As many bytes; nothing is allocated where the file does not have them.
  std::vector<std::byte> bytes(std::uint64_t offset, std::uint64_t count) const;
  std::string text(std::uint64_t offset, std::uint64_t count) const;

  template <class T>
  T number(std::uint64_t offset) const {
    T value;
    read(offset, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

  /// Gives the open file away; nothing may be read here afterwards.
  std::unique_ptr<storage::Reader> release() { return std::move(reader_); }

  /// Of the size and of 4096 bytes each at the beginning, in the middle and at the end.
  Fingerprint fingerprint() const;

  /// Throws "[operation] FILE at byte OFFSET: WHAT".
  [[noreturn]] void damaged(std::uint64_t offset, const std::string& what) const;

 private:
  void check(std::uint64_t offset, std::uint64_t count) const;

  std::string operation_;
  std::unique_ptr<storage::Reader> reader_;
};

/// Reads a file from its beginning to its end, or parts of it, by large blocks.
class Scan {
 public:
  explicit Scan(const File& file, std::size_t block = std::size_t{8} << 20);

  std::uint64_t offset() const { return offset_; }
  std::uint64_t left() const { return file_.size() - offset_; }

  /// The next bytes, at most `count` of them and at least one; none at the end. Valid until the next call.
  std::string_view next(std::size_t count);

  /// Exactly the next bytes, at most a block. Throws if the file ends before.
  std::string_view exactly(std::size_t count);

  /// Goes on behind them. Throws if the file ends before.
  void skip(std::uint64_t count);

 private:
  void fill(std::size_t wanted);

  const File& file_;
  std::size_t block_;
  std::vector<std::byte> buffer_;
  std::uint64_t buffer_offset_ = 0, offset_ = 0;
  std::size_t filled_ = 0;
};

/// a * b; false if it does not fit.
inline bool multiply(std::uint64_t a, std::uint64_t b, std::uint64_t* product) {
  return !__builtin_mul_overflow(a, b, product);
}

/// Throws "[operation] NAME has no record I: it has N" where there is none.
void check_record(std::string_view operation, std::string_view name, std::uint64_t i, std::uint64_t size);

}  // namespace lockstep::data::internal
