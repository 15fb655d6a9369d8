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

/// What a checkpoint has, and where: the file manifest.json, whose form docs/checkpoints.md gives.
namespace lockstep::checkpoint {

inline constexpr const char* kManifestName = "manifest.json";

/// A file of arrays.
struct FileInfo {
  std::string name;  ///< relative to the checkpoint's folder
  std::uint64_t bytes = 0;
  std::uint64_t header_bytes = 0;  ///< what stands before the arrays
  std::string header_sum;          ///< XXH3-128 of it; empty if it is not known
};

/// A part of an array, dense and row-major in one file.
struct Part {
  Box box;
  std::size_t file = 0;      ///< in Manifest::files
  std::uint64_t offset = 0;  ///< in the file
  std::string key;           ///< the tensor's name in the file
  Shape tile;                ///< how it is cut for checksums; empty if there are none
  std::string sums;          ///< of the tiles, kSumDigits digits each
};

struct ArrayInfo {
  std::optional<DType> dtype;  ///< nullopt of those that Lockstep has not, such as F8_E4M3
  std::string dtype_name;      ///< as safetensors says it: "F32"
  Shape shape;
  bool weak_type = false;
  std::vector<Part> parts;
};

struct Manifest {
  std::string nonce;                 ///< of the attempt that wrote it
  std::optional<std::int64_t> step;  ///< where a Checkpointer wrote it
  std::optional<double> metric;      ///< what Keep::best goes by
  std::string created;               ///< "2026-11-22T14:00:00Z"
  int num_processes = 1;             ///< that wrote it
  std::vector<FileInfo> files;
  std::map<std::string, ArrayInfo> arrays;  ///< by path
  Values values;
};

/// The text of the file. Its first line has a checksum of the others.
std::string to_json(const Manifest& manifest);

/// Throws CheckpointError, naming `url`, where the text is damaged or of a form that is not known, and where
/// the parts of an array leave a gap, overlap, or lie outside of their files.
Manifest parse_manifest(std::string_view json, const std::string& url);

/// Throws CheckpointError if the parts do not make up the whole array, each element once.
void check_coverage(const std::string& path, const ArrayInfo& array, const std::string& url);

/// Of the whole array.
std::uint64_t bytes_of(const ArrayInfo& array);

/// "f32[512,1024]", or with a dtype that Lockstep has not "F8_E4M3[16]".
std::string describe(const ArrayInfo& array);

}  // namespace lockstep::checkpoint
