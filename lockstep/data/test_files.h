// SPDX-License-Identifier: Apache-2.0
#pragma once

// For tests of this folder: small files of every format, written byte by byte.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/crc32c.h"
#include "lockstep/data/source.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::data::test {

inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::filesystem::remove(path);  // ext4 waits for the disk if a file is truncated to nothing and written
                                  // again
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The value's bytes, little-endian.
template <class T>
std::string le(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}
template <class T>
std::string les(const std::vector<T>& values) {
  std::string bytes;
  for (T value : values) bytes += le(value);
  return bytes;
}

inline std::vector<Record> read_all(const Source& source) {
  std::vector<Record> records;
  for (std::uint64_t i = 0; i < source.size(); ++i) records.push_back(source.read(i));
  return records;
}

inline std::string llm_c_file(std::int32_t magic, std::int32_t version, std::int32_t count,
                              const std::string& tokens) {
  std::string file = le(magic) + le(version) + le(count);
  file.resize(1024);
  return file + tokens;
}

/// Sequences of u16 tokens; a document begins at each of these sequences.
inline std::string megatron_index(const std::vector<std::int32_t>& lengths,
                                  const std::vector<std::int64_t>& documents) {
  std::string file = std::string("MMIDIDX\0\0", 9) + le(std::uint64_t{1}) + le(std::uint8_t{8}) +
                     le(std::uint64_t{lengths.size()}) + le(std::uint64_t{documents.size()}) + les(lengths);
  std::int64_t place = 0;
  for (std::int32_t length : lengths) {
    file += le(place);
    place += 2 * length;
  }
  return file + les(documents);
}

inline std::string npy_file(const std::string& descr, const std::string& shape, const std::string& data,
                            const std::string& fortran = "False") {
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  return "\x93NUMPY" + le(std::uint8_t{1}) + le(std::uint8_t{0}) +
         le(static_cast<std::uint16_t>(header.size())) + header + data;
}

inline std::string tfrecord_file(const std::vector<std::string>& records) {
  std::string file;
  for (const std::string& record : records) {
    const std::string length = le(std::uint64_t{record.size()});
    file += length + le(internal::masked_crc32c(length)) + record + le(internal::masked_crc32c(record));
  }
  return file;
}

/// A field of kind 2 in protobuf's wire format.
inline std::string proto(int number, const std::string& bytes) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(bytes.size()) + bytes;
}
inline std::string example_feature(const std::string& name, int kind, const std::string& list) {
  return proto(1, proto(1, name) + proto(2, proto(kind, list)));
}

/// An MDS shard of records that are already encoded.
inline std::string mds_shard(const std::vector<std::string>& records) {
  const std::string config = "{\"format\": \"mds\"}";
  auto place = static_cast<std::uint32_t>(4 * (records.size() + 2) + config.size());
  std::string file = le(static_cast<std::uint32_t>(records.size()));
  for (const std::string& record : records) {
    file += le(place);
    place += static_cast<std::uint32_t>(record.size());
  }
  file += le(place) + config;
  for (const std::string& record : records) file += record;
  return file;
}
inline std::string mds_index_shard(const std::string& name, std::size_t bytes, std::size_t samples,
                                   const std::string& names, const std::string& encodings,
                                   const std::string& sizes) {
  return R"({"column_encodings": [)" + encodings + R"(], "column_names": [)" + names +
         R"(], "column_sizes": [)" + sizes +
         R"(], "compression": null, "format": "mds", "hashes": [], "raw_data": {"basename": ")" + name +
         R"(", "bytes": )" + std::to_string(bytes) + R"(, "hashes": {}}, "samples": )" +
         std::to_string(samples) + R"(, "size_limit": 67108864, "version": 2, "zip_data": null})";
}

/// The checksum of a header of tar, as it is written at byte 148.
inline std::string tar_checksum(std::string_view header) {
  unsigned sum = 8 * ' ';  // for itself
  for (std::size_t i = 0; i < header.size(); ++i)
    if (i < 148 || i >= 156) sum += static_cast<unsigned char>(header[i]);
  char octal[9];
  std::snprintf(octal, sizeof octal, "%06o", sum);
  return std::string(octal, 7) + " ";
}

/// A member of a tar file: header and data.
inline std::string tar_member(const std::string& name, const std::string& data, char kind = '0',
                              const std::string& size = "", const std::string& prefix = "") {
  std::string header(512, '\0');
  auto put = [&](std::size_t at, const std::string& text) { header.replace(at, text.size(), text); };
  put(0, name.substr(0, 100));
  put(100, "0000644");
  char octal[13];
  std::snprintf(octal, sizeof octal, "%011lo", static_cast<unsigned long>(data.size()));
  put(124, size.empty() ? octal : size);
  put(136, "00000000000");
  header[156] = kind;
  put(257, std::string("ustar\00000", 8));
  put(345, prefix);
  put(148, tar_checksum(header));
  std::string file = header + data;
  file.resize((file.size() + 511) / 512 * 512);
  return file;
}
inline std::string tar_end() { return std::string(1024, '\0'); }

}  // namespace lockstep::data::test
