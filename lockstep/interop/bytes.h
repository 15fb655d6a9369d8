// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep::interop {

/// Reads MLIR's bytecode (mlir.llvm.org/docs/BytecodeFormat) from front to back. Every function throws Error
/// where the bytes end before.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}

  bool empty() const { return at_ == bytes_.size(); }
  std::size_t left() const { return bytes_.size() - at_; }
  std::size_t position() const { return at_; }

  std::uint8_t byte();
  std::string_view take(std::size_t count);

  /// A number whose first byte says, by its zeros at the end, how many bytes follow it.
  std::uint64_t number();

  /// The same, with its sign in the lowest bit.
  std::int64_t signed_number();

  /// The same, with a flag in the lowest bit.
  std::uint64_t number_and(bool& flag);

  /// A number of things that follow, of at least one byte each.
  std::size_t count();

  /// Up to a zero byte, which is taken too.
  std::string_view text();

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

[[noreturn]] void fail_damaged(std::string_view what);

}  // namespace lockstep::interop
