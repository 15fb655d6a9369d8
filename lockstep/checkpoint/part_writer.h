#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lockstep/checkpoint/manifest.h"
#include "lockstep/storage/store.h"

namespace lockstep::checkpoint {

/// A part that is to be written, and where its elements are.
struct PartSource {
  std::string path;  ///< of its array
  DType dtype = DType::kF32;
  Shape shape;  ///< of the array
  Box box;

  /// Gives the memory of some of the part's rows (a box in the part, which begins at 0, that is one stretch
  /// of it): either what lies somewhere already, or `scratch`, of as many bytes, after filling it.
  std::function<const std::byte*(const Box& rows, std::byte* scratch)> elements;
};

/// What the header's metadata says of a part of a checkpoint under "format".
inline constexpr const char* kFormatOfParts = "lockstep";

/// What was written.
struct WrittenFile {
  FileInfo file;
  std::vector<Part> parts;  ///< in the order of the sources; `file` is not set
};

/// Writes a safetensors file with these parts, and finishes it. What is whole in it has its path as its name,
/// a part has its range behind. `written` is told of bytes as they are written. Throws StorageError.
WrittenFile write_parts(storage::Store& store, const std::string& folder, const std::string& name,
                        const std::vector<PartSource>& sources,
                        const std::function<void(std::uint64_t bytes)>& written = {});

/// In which order the parts lie in a file: those that can be mapped into memory where they are first.
std::vector<std::size_t> file_order(const std::vector<std::size_t>& bytes);

}  // namespace lockstep::checkpoint
