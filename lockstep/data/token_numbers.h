// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "lockstep/base/dtype.h"
#include "lockstep/data/file.h"

namespace lockstep::data::internal {

/// Integers of any width, stored consecutively in a file, read as tokens.
class TokenNumbers {
 public:
  /// They begin at byte `offset`. The dtype is u8, i8, u16, i16, u32, i32 or i64.
  TokenNumbers(std::shared_ptr<const File> file, std::uint64_t offset, std::uint64_t count, DType dtype)
      : file_(std::move(file)), offset_(offset), count_(count), dtype_(dtype) {}

  std::uint64_t size() const { return count_; }

  /// As Tokens::read.
  void read(std::uint64_t begin, std::span<std::int32_t> into) const;

 private:
  template <class T>
  void read_as(std::uint64_t begin, std::span<std::int32_t> into) const;

  std::shared_ptr<const File> file_;
  std::uint64_t offset_, count_;
  DType dtype_;
};

}  // namespace lockstep::data::internal
