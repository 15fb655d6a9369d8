// SPDX-License-Identifier: Apache-2.0
#include "lockstep/interop/bytes.h"

#include <bit>

#include "lockstep/base/fail.h"

namespace lockstep::interop {

void fail_damaged(std::string_view what) {
  fail<Error>("[import_jax_export] the bytes are damaged or cut short: {}; export the function again", what);
}

std::uint8_t Bytes::byte() { return static_cast<std::uint8_t>(take(1).front()); }

std::string_view Bytes::take(std::size_t count) {
  if (count > left()) fail_damaged("the module ends within a value");
  const std::string_view taken = bytes_.substr(at_, count);
  at_ += count;
  return taken;
}

std::uint64_t Bytes::number() {
  const std::uint8_t first = byte();
  const int more = first == 0 ? 8 : std::countr_zero(first);
  std::uint64_t value = 0;
  const std::string_view rest = take(static_cast<std::size_t>(more));
  for (std::size_t i = rest.size(); i-- > 0;) value = value << 8 | static_cast<std::uint8_t>(rest[i]);
  if (first == 0) return value;
  // The bits of the first byte that are above the mark are the lowest of the value.
  return value << (7 - more) | static_cast<std::uint64_t>(first) >> (more + 1);
}

std::int64_t Bytes::signed_number() {
  const std::uint64_t value = number();
  return static_cast<std::int64_t>(value >> 1 ^ (~(value & 1) + 1));
}

std::uint64_t Bytes::number_and(bool& flag) {
  const std::uint64_t value = number();
  flag = (value & 1) != 0;
  return value >> 1;
}

std::size_t Bytes::count() {
  const std::uint64_t value = number();
  if (value > left()) fail_damaged("a list is longer than the module");
  return static_cast<std::size_t>(value);
}

std::string_view Bytes::text() {
  const std::size_t end = bytes_.find('\0', at_);
  if (end == std::string_view::npos) fail_damaged("a text has no end");
  const std::string_view taken = bytes_.substr(at_, end - at_);
  at_ = end + 1;
  return taken;
}

}  // namespace lockstep::interop
