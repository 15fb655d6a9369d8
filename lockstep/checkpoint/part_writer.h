// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lockstep/checkpoint/manifest.h"
#include "lockstep/storage/store.h"

namespace lockstep::checkpoint {

/// A part to be written, and the source of its elements.
struct PartSource {
  std::string path;  ///< of its array
  DType dtype = DType::kF32;
  Shape shape;  ///< of the array
  Box box;

  /// Returns the memory of some of the part's rows (a contiguous box within the part, whose coordinates begin
  /// at 0): either existing memory, or `scratch`, which has the right size, after filling it.
  std::function<const std::byte*(const Box& rows, std::byte* scratch)> elements;
};

/// The value of "format" in the header's metadata of a part of a checkpoint.
inline constexpr const char* kFormatOfParts = "lockstep";

/// The result of writing.
struct WrittenFile {
  FileInfo file;
  std::vector<Part> parts;  ///< in the order of the sources; `file` is not set
};

/// Writes a safetensors file with these parts, and finishes it. A tensor with a whole array is named by the
/// path; for a part the range is appended. `written` is called with numbers of bytes as they are written.
/// Throws StorageError.
WrittenFile write_parts(storage::Store& store, const std::string& folder, const std::string& name,
                        const std::vector<PartSource>& sources,
                        const std::function<void(std::uint64_t bytes)>& written = {});

/// The order of the parts in a file: those that can be used in place when mapped come first.
std::vector<std::size_t> file_order(const std::vector<std::size_t>& bytes);

}  // namespace lockstep::checkpoint
