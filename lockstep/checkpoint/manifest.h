// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/dtype.h"
#include "lockstep/checkpoint/box.h"
#include "lockstep/checkpoint/value.h"

/// The contents of a checkpoint, and their locations: the file manifest.json, whose format is described in
/// docs/checkpoints.md.
namespace lockstep::checkpoint {

inline constexpr const char* kManifestName = "manifest.json";

/// The highest order in a manifest.
inline constexpr std::int64_t kLargestOrder = std::int64_t{1} << 58;

/// A file of arrays.
struct FileInfo {
  std::string name;  ///< relative to the checkpoint's folder
  std::uint64_t bytes = 0;
  std::uint64_t header_bytes = 0;  ///< the bytes before the arrays
  std::string header_sum;          ///< its XXH3-128; empty if unknown
};

/// A part of an array, dense and row-major in one file.
struct Part {
  Box box;
  std::size_t file = 0;      ///< index in Manifest::files
  std::uint64_t offset = 0;  ///< in the file
  std::string key;           ///< the tensor's name in the file
  Shape tile;                ///< the size of the tiles for checksums; empty if there are none
  std::string sums;          ///< of the tiles, kSumDigits digits each
};

struct ArrayInfo {
  std::optional<DType> dtype;  ///< nullopt for dtypes that Lockstep does not have, such as F8_E4M3
  std::string dtype_name;      ///< as in safetensors: "F32"
  Shape shape;
  bool weak_type = false;
  std::vector<Part> parts;
};

struct Manifest {
  std::string nonce;                 ///< of the attempt that wrote it
  std::optional<std::int64_t> step;  ///< set if a Checkpointer wrote it
  std::int64_t order = 0;            ///< higher than those of the run's steps saved before; 0 if unknown
  std::optional<double> metric;      ///< the metric for Keep::best
  std::string created;               ///< "2026-11-22T14:00:00Z"
  int num_processes = 1;             ///< the number of processes that wrote it
  std::vector<FileInfo> files;
  std::map<std::string, ArrayInfo> arrays;  ///< by path
  Values values;
};

/// The text of the file. Its first line contains a checksum of the others.
std::string to_json(const Manifest& manifest);

/// Throws CheckpointError, naming `url`, if the text is damaged or has an unknown format, if a file is not
/// within the checkpoint's folder, and if the parts of an array leave a gap, overlap, or are not within their
/// files.
Manifest parse_manifest(std::string_view json, const std::string& url);

/// Throws CheckpointError if the name is not that of a file in the checkpoint's folder or below it.
void check_file_name(const std::string& name, const std::string& url);

/// Throws CheckpointError if the parts do not make up the whole array, each element once.
void check_coverage(const std::string& path, const ArrayInfo& array, const std::string& url);

/// The bytes of the whole array.
std::uint64_t bytes_of(const ArrayInfo& array);

/// "f32[512,1024]", or, with a dtype that Lockstep does not have, "F8_E4M3[16]".
std::string describe(const ArrayInfo& array);

}  // namespace lockstep::checkpoint
