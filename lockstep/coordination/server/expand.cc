// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/server/expand.h"

#include <zlib.h>

#include <array>
#include <memory>
#include <string_view>

namespace lockstep::coordination {

std::optional<std::string> expanded(std::string bytes, std::size_t largest) {
  if (!bytes.starts_with("\x1f\x8b")) {
    return bytes.size() <= largest ? std::optional(std::move(bytes)) : std::nullopt;
  }
  constexpr int kGzip = 15 + 16;  // the largest window, and gzip's header
  z_stream stream{};
  if (inflateInit2(&stream, kGzip) != Z_OK) return std::nullopt;
  const std::unique_ptr<z_stream, int (*)(z_stream*)> ends(&stream, inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string plain;
  std::array<char, 16 << 10> some;
  while (true) {
    stream.next_out = reinterpret_cast<Bytef*>(some.data());
    stream.avail_out = some.size();
    const int code = inflate(&stream, Z_NO_FLUSH);
    const std::size_t got = some.size() - stream.avail_out;
    if ((code != Z_OK && code != Z_STREAM_END) || got > largest - plain.size()) return std::nullopt;
    plain.append(some.data(), got);
    if (code == Z_STREAM_END) return stream.avail_in == 0 ? std::optional(std::move(plain)) : std::nullopt;
  }
}

}  // namespace lockstep::coordination
