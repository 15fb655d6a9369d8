// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/text.h"

#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/read_file.h"
#include "lockstep/data/file.h"
#include "lockstep/storage/url.h"

namespace lockstep::data {
namespace {

/// The bytes of a file, which may be a pipe.
std::string bytes_of(const char* operation, const std::string& url) {
  std::error_code error;
  try {
    const storage::Location place = storage::locate(url);
    const auto kind = place.is_object ? std::filesystem::file_type::regular
                                      : std::filesystem::status(place.path, error).type();
    if (kind == std::filesystem::file_type::fifo || kind == std::filesystem::file_type::character) {
      FileRead read = read_file(place.path);
      if (read.error == 0) return std::move(read.bytes);
    }
  } catch (const StorageError&) {
    // File, below, says what is wrong.
  }
  const internal::File file(operation, url);
  return file.text(0, file.size());
}

/// The bytes of gzip's members, one after the other.
std::string inflated(const char* operation, const std::string& url, const std::string& bytes) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) throw std::bad_alloc();
  const std::unique_ptr<z_stream, int (*)(z_stream*)> ends(&stream, inflateEnd);
  std::string text;
  char block[1 << 16];
  std::size_t given = 0;  // of `bytes`
  auto input = [&](std::size_t at) { return reinterpret_cast<const Bytef*>(bytes.data()) + at; };
  while (true) {
    if (stream.avail_in == 0) {
      const std::size_t some = std::min<std::size_t>(bytes.size() - given, 1 << 30);
      stream.next_in = const_cast<Bytef*>(input(given));
      stream.avail_in = static_cast<uInt>(some);
      given += some;
    }
    stream.next_out = reinterpret_cast<Bytef*>(block);
    stream.avail_out = sizeof block;
    const int code = inflate(&stream, Z_NO_FLUSH);
    text.append(block, sizeof block - stream.avail_out);
    const std::size_t left = stream.avail_in + (bytes.size() - given);
    if (code == Z_STREAM_END) {
      // Zeros may fill up the end, as gzip allows.
      if (bytes.find_first_not_of('\0', bytes.size() - left) == bytes.npos) return text;
      if (inflateReset(&stream) != Z_OK) throw std::bad_alloc();
    } else if (code == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (code != Z_OK || (left == 0 && stream.avail_out > 0)) {
      fail<DataError>("[{}] {} at byte {}: it is damaged or cut off ({}); fetch it again", operation,
                      storage::printable(url), bytes.size() - left,
                      code == Z_OK || code == Z_BUF_ERROR ? "unexpected end of file"
                      : stream.msg != nullptr             ? stream.msg
                                                          : "not gzip data");
    }
  }
}

}  // namespace

std::string internal::read_whole(const char* operation, const std::string& url) {
  std::string bytes = bytes_of(operation, url);
  return bytes.starts_with("\x1f\x8b") ? inflated(operation, url, bytes) : bytes;
}

std::string read_text(const std::string& url) { return internal::read_whole("read_text", url); }

}  // namespace lockstep::data
