// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/data/test_files.h"

// .npz files for tests, made without the library that reads them.

namespace lockstep::checkpoint::test {

/// An entry: its bytes compressed, and what the file says of it.
struct NpzEntry {
  std::string name, compressed;
  std::uint32_t size = 0, checksum = 0;
};

/// Compresses `bytes`, and then `times` times `repeated`, without keeping them.
inline std::string deflated(std::string bytes, std::string repeated = "", int times = 0) {
  z_stream stream{};
  if (deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("deflate");
  const auto compress = [&](std::string& input, int flush) {
    std::string output(deflateBound(&stream, input.size()) + 64, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(input.data());
    stream.avail_in = static_cast<uInt>(input.size());
    stream.next_out = reinterpret_cast<Bytef*>(output.data());
    stream.avail_out = static_cast<uInt>(output.size());
    deflate(&stream, flush);
    output.resize(output.size() - stream.avail_out);
    return output;
  };
  std::string result = compress(bytes, Z_FULL_FLUSH);
  const std::string block = times > 0 ? compress(repeated, Z_FULL_FLUSH) : "";  // it refers to nothing before
  for (int i = 0; i < times; ++i) result += block;
  std::string nothing;
  result += compress(nothing, Z_FINISH);
  deflateEnd(&stream);
  return result;
}

inline NpzEntry npz_entry(const std::string& name, const std::string& npy) {
  return {name + ".npy", deflated(npy), static_cast<std::uint32_t>(npy.size()),
          static_cast<std::uint32_t>(
              crc32(0, reinterpret_cast<const Bytef*>(npy.data()), static_cast<uInt>(npy.size())))};
}

inline std::string npz_file(const std::vector<NpzEntry>& entries) {
  using data::test::le;
  std::string file, directory;
  for (const NpzEntry& entry : entries) {
    const std::string about = le(std::uint16_t{20}) + le(std::uint16_t{0}) + le(std::uint16_t{8}) +
                              le(std::uint32_t{0}) + le(entry.checksum) +
                              le(static_cast<std::uint32_t>(entry.compressed.size())) + le(entry.size) +
                              le(static_cast<std::uint16_t>(entry.name.size())) + le(std::uint16_t{0});
    directory += "PK\x01\x02" + le(std::uint16_t{20}) + about + le(std::uint16_t{0}) + le(std::uint16_t{0}) +
                 le(std::uint16_t{0}) + le(std::uint32_t{0}) + le(static_cast<std::uint32_t>(file.size())) +
                 entry.name;
    file += "PK\x03\x04" + about + entry.name + entry.compressed;
  }
  const auto count = le(static_cast<std::uint16_t>(entries.size()));
  return file + directory + "PK\x05\x06" + le(std::uint32_t{0}) + count + count +
         le(static_cast<std::uint32_t>(directory.size())) + le(static_cast<std::uint32_t>(file.size())) +
         le(std::uint16_t{0});
}

}  // namespace lockstep::checkpoint::test
